"""The sign-off document: its decision, its words, its order, and the options that fill in its lines."""

from __future__ import annotations

import datetime
import hashlib
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_audit import NOISE, PROMISE, example
from parsed_page import Page

from command_line import Run
from fedleak import registry
from fedleak.errors import FedleakError
from fedleak.games.attribute import Attribute
from fedleak.games.membership import Membership
from fedleak.report import pdf, results_file
from fedleak.report.signoff import document, identifiability
from fedleak.report.signoff.decision import decision
from fedleak.report.signoff.signatories import Signatories, signatories
from fedleak.results.audit import Audit, GameInfo, Threat, Untested, Utility
from fedleak.results.criteria import CRITERIA
from fedleak.results.defence_results import Promised
from fedleak.score.assemble import about

HOSTILE = "<script>alert(1)</script>"


def limited(limit: float, **changes: Any) -> Audit:
    """The example with one limit on the undefended run."""
    audit = example(**changes)
    scores = [
        msgspec.structs.replace(
            score,
            limit=limit if (score.metric, score.defence, score.control) == ("ap", None, None) else None,
            exceeded=(score.metric, score.defence, score.control) == ("ap", None, None) and score.low > limit,
        )
        for score in audit.scores
    ]
    resolved = {**audit.resolved, "limits": {"identify": {"ap": limit}}, "deployed": None, "defence": [[NOISE]]}
    return msgspec.structs.replace(audit, scores=scores, resolved=resolved)


def text_of(audit: Audit, **given: Any) -> str:
    page = document.render(audit, signatories(audit, **given), "ab" * 32)
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S).split())


def test_without_limits_there_is_no_decision() -> None:
    found = decision(example())
    assert found.text == "No limits were set: no decision." and found.checks == ()


def test_a_limit_below_the_interval_is_shown_to_be_exceeded() -> None:
    found = decision(limited(0.3))
    assert found.text.startswith("Shown:") and found.kind == "leak"
    assert found.checks[0].exceeded == "shown"
    assert "run without a defence" in found.where


def test_a_limit_inside_the_interval_is_not_shown_to_be_exceeded_and_says_what_is_open() -> None:
    best = max((s for s in limited(0.9).scores if s.limit is not None), key=lambda score: score.low)
    found = decision(limited((best.low + best.high) / 2))
    assert found.text.startswith("Not shown:") and found.kind == "quiet"
    assert "an interval reaches up to" in found.checks[0].sentence
    assert found.text.endswith("Not excluded either: intervals reach above the limit.")
    assert "Not excluded" not in decision(limited(0.99)).text


def test_a_limit_inside_the_interval_for_all_attacks_is_not_excluded_either() -> None:
    audit = limited(0.9)
    scores = [msgspec.structs.replace(s, all_high=0.95) if s.attack == "reid-svm" else s for s in audit.scores]
    found = decision(msgspec.structs.replace(audit, scores=scores))
    assert "Not excluded either" in found.text and "up to 0.95" in found.checks[0].sentence


def test_a_leak_below_the_limit_is_told_beside_the_decision() -> None:
    told = [line for line in decision(limited(0.9)).conditions if "A leak is shown on this run" in line]
    assert len(told) == 1 and "identify: average precision 0.75" in told[0]
    assert not [line for line in decision(limited(0.3)).conditions if "A leak is shown" in line]


def test_a_limit_that_no_score_is_held_against_is_not_tested_and_decides_nothing() -> None:
    audit = limited(0.3)
    audit = msgspec.structs.replace(
        audit, scores=[msgspec.structs.replace(s, limit=None, exceeded=False) for s in audit.scores]
    )
    found = decision(audit)
    assert found.text.startswith("Not tested:") and "No decision" in found.text


def test_warnings_contradictions_and_failures_stand_on_the_first_page() -> None:
    audit = limited(0.3, warnings=["The control failed."])
    conditions = decision(audit).conditions
    assert "The control failed." in conditions
    assert any("canaries contradict" in line for line in conditions)
    assert any("could not be trained" in line for line in conditions)


def test_the_first_page_says_what_was_not_tested_and_what_has_no_control() -> None:
    audit = limited(0.3)
    threat = Threat(name="s", summary="S.", sees=[], cannot_see=[], capabilities=[], attacks_on="model updates")
    audit = msgspec.structs.replace(
        audit, threats=[threat], scores=[score for score in audit.scores if score.control is None]
    )
    conditions = decision(audit).conditions
    assert "Not tested, of the criteria of regulators (part 3): inference, membership." in conditions
    assert "Not tested: attacks on the trained model (part 1)." in conditions
    assert any("No control was run" in line for line in conditions)
    assert not any("No control was run" in line for line in decision(limited(0.3)).conditions)


def test_a_model_that_learnt_nothing_is_told_on_the_first_page() -> None:
    def about_learning(value: float) -> list[str]:
        used = Utility(metric="accuracy", value=value, low=value, high=value, higher_is_better=True, chance=0.1)
        audit = limited(0.3)
        scores = [msgspec.structs.replace(s, utility=None if s.defence else used) for s in audit.scores]
        told = decision(msgspec.structs.replace(audit, scores=scores)).conditions
        return [line for line in told if "constant prediction" in line]

    assert about_learning(0.8) == []
    (line,) = about_learning(0.1)
    assert "not shown to be better than a constant prediction (no defence: accuracy 0.10 against 0.10)" in line


def test_attacks_on_too_few_users_test_nothing() -> None:
    audit = limited(0.9)
    few = [msgspec.structs.replace(score, leaks=None, p=1.0) for score in audit.scores]
    audit = msgspec.structs.replace(audit, scores=few)
    rows = {row.name: row for row in identifiability.criteria(audit)}
    assert [one.evidence for one in rows["singling out"].tested] == ["not tested"]
    (question,) = identifiability.questions(audit)
    assert question["residual"].startswith("Not tested without a defence") and "too few users" in question["residual"]


def test_without_limits_the_first_page_says_what_was_found() -> None:
    text = text_of(example())
    assert text.index("is named correctly in 68%") < text.index("1. Context")


def test_words_of_the_audit_are_explained_where_they_stand() -> None:
    audit = limited(0.3, settings={"noise": {"relative": "in units of a layer's size"}})
    text = text_of(audit)
    assert "relative : in units of a layer" in text
    assert "The verdict is about AP, which is not the 68% above" in text  # chance 0.048 beside "guessing 3%"
    assert "possible harm" in text
    assert "What the model is worth on data that nobody trained on: accuracy" in text


def test_the_parts_come_in_the_order_of_the_standard() -> None:
    page = document.render(limited(0.3), Signatories(), "0" * 64)
    headings = re.findall(r"<h2>(\d\. \w+)</h2>", page)
    assert headings == ["1. Context", "2. Data", "3. Identifiability", "4. Governance"]
    assert page.index('id="decision"') < page.index('id="context"')


def test_every_criterion_is_there_and_what_nothing_tested_says_so() -> None:
    rows = {row.name: row for row in identifiability.criteria(example())}
    assert list(rows) == ["singling out", "linkability", "inference", "membership"]
    assert [one.evidence for one in rows["singling out"].tested] == ["shown"]
    assert rows["membership"].tested == () and rows["inference"].tested == ()
    assert text_of(example()).count("not tested") >= 2


def test_a_game_that_declares_no_criterion_is_not_mapped() -> None:
    audit = example(games={"identify": GameInfo(question="?", controls=["iid"])})
    assert identifiability.not_mapped(audit) == ["identify"]
    assert "Not mapped to a criterion: identify." in text_of(audit)


def test_games_declare_their_criteria_themselves() -> None:
    assert about(Attribute(attribute="age")).criteria == ["inference"]


def test_an_audit_of_membership_does_not_say_that_membership_was_not_tested() -> None:
    audit = example(games={"identify": about(Membership())})
    rows = {row.name: row for row in identifiability.criteria(audit)}
    assert rows["membership"].tested and not rows["singling out"].tested


def test_every_game_and_its_criteria_are_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/sign-off.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (singling out|linkability|inference|membership) \| (.*?) \|", page, re.M))
    known = {name: registry.load("game", name) for name in registry.names("game")}
    for criterion in CRITERIA:
        games = {name for name, game in known.items() if criterion in game.criteria}
        assert set(re.findall(r"`([\w-]+)`", listed[criterion])) == games, criterion


def test_adversaries_are_grouped_by_what_they_attack() -> None:
    threats = [
        Threat(name="s", summary="S.", sees=[], cannot_see=[], capabilities=[], attacks_on="model updates"),
    ]
    text = text_of(example(threats=threats))
    updates, model = text.index("Attacks on model updates"), text.index("Attacks on the trained model")
    assert updates < text.index("Adversary: s") < model
    assert "not tested" in text[model : model + 250]


def test_an_epsilon_stands_with_everything_that_it_depends_on() -> None:
    ((name, rows),) = identifiability.statements(example())
    said = dict(rows)
    assert "noise" in name and said["epsilon"].startswith("3.20")
    assert said["delta"] == "1.0e-03" and said["adjacency"] == "one client more or less"
    assert said["trusted"] == "not stated" and said["accountant"] == "not stated"
    assert said["empirical test"].startswith("Contradiction shown")
    assert said["randomness, floating point, timing"] == "not tested"


def test_a_contradiction_over_the_whole_run_is_told_where_one_round_shows_none() -> None:
    promise = msgspec.structs.replace(PROMISE, shown=0.1, shown_over_run=4.5)
    audit = example(promises=[Promised(defence=NOISE, promises=[promise])])
    ((_, rows),) = identifiability.statements(audit)
    one, run = dict(rows)["empirical test"].split(". ")
    assert one.startswith("Contradiction not shown") and "0.50 is stated there" in one
    assert run.startswith("Contradiction shown") and "4.50 over the whole run; 3.20" in run
    unasked = msgspec.structs.replace(promise, shown=None, tested=None)
    ((_, rows),) = identifiability.statements(example(promises=[Promised(defence=NOISE, promises=[unasked])]))
    assert dict(rows)["empirical test"].startswith("Contradiction shown")


def test_the_document_claims_nothing_beyond_the_evidence() -> None:
    text = text_of(limited(0.9)).lower()
    for word in (r"\bsafe\b", r"\bcompliant\b", r"\banonymous\b(?!-server)", r"\bsecure\b", r"\bguaranteed\b"):
        assert not re.search(word, text.replace("secure aggregation", "")), word


def test_what_is_not_known_is_a_blank_line_and_what_is_known_is_not() -> None:
    blank = document.render(example(), signatories(example()), "0" * 64)
    filled = document.render(
        example(), signatories(example(), tester="Tess", reviewer="Rae", approver="Ann", review_months=6), "0" * 64
    )
    assert blank.count('class="blank"') > filled.count('class="blank"')
    assert "Tess" in filled and "2026-07-02" in filled


def test_options_count_before_the_plan_and_the_plan_before_nothing() -> None:
    audit = example(resolved={"signoff": {"tester": "Planned", "review_months": 3}})
    assert signatories(audit).tester == "Planned"
    assert signatories(audit, tester="Said").tester == "Said"
    assert signatories(audit).review == datetime.date(2026, 4, 2)
    assert signatories(audit, date=datetime.date(2026, 11, 30), review_months=3).review == datetime.date(2027, 2, 28)


def test_hostile_text_stays_text() -> None:
    audit = limited(0.3, title=HOSTILE, story=HOSTILE, source=HOSTILE, warnings=[HOSTILE])
    audit = msgspec.structs.replace(audit, untested=[Untested(what=HOSTILE, why=HOSTILE, needs=HOSTILE)])
    page = document.render(audit, signatories(audit, tester=HOSTILE), "0" * 64)
    assert "<script" not in page
    assert "script" not in {tag for tag, _ in Page(page).elements}


def test_it_is_made_from_the_results_file_alone_and_names_its_digest(fedleak: Run, tmp_path: Path) -> None:
    results_file.write(limited(0.3), tmp_path / "out")
    done = fedleak("report", tmp_path / "out", "--signoff", "--tester", "Tess", "--date", "2026-05-06")
    assert done.returncode == 3, done.stderr
    path = tmp_path / "out" / "sign-off.html"
    digest = hashlib.sha256((tmp_path / "out" / "results.json").read_bytes()).hexdigest()
    page = path.read_text()
    assert digest in page and f'"Privacy audit {digest[:12]}"' in page
    assert "Tess" in page and "2026-05-06" in page
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"Sign-off: {path}" in done.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--tester", "Tess"], 2, "--tester is for the sign-off document; add --signoff"),
        (["--review-months", "6"], 2, "--review-months is for the sign-off document"),
        (["--signoff", "--review-months", "0"], 2, "0 is not in the range 1<=x<=120"),
        (["--signoff", "--date", "6.5.2026"], 2, "does not match the format '%Y-%m-%d'"),
        (["--signoff", "--tester", " "], 2, "expected a name of 1 to 200 printable characters"),
        (["--signoff", "--approver", "a\nb"], 2, "expected a name of 1 to 200 printable characters"),
        (["--names"], 1, "names.json is missing"),
    ],
)
def test_a_wrong_option_is_one_line(fedleak: Run, tmp_path: Path, options: list[str], code: int, message: str) -> None:
    results_file.write(example(), tmp_path / "out")
    done = fedleak("report", tmp_path / "out", *options)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_browser_pdf_says_so_in_one_line(
    fedleak: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results_file.write(example(), tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pdf, "_MAC", tmp_path / "none")
    done = fedleak("report", tmp_path / "out", "--signoff", "--pdf")
    assert done.returncode == 1
    assert "no Chromium was found" in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "out" / "sign-off.html").exists()


@pytest.mark.parametrize("body", ["exit 3", "echo broken >&2; exit 0"])
def test_a_browser_that_prints_nothing_is_an_error(tmp_path: Path, body: str) -> None:
    program = tmp_path / "chromium"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    page = tmp_path / "page.html"
    page.write_text("<p>page")
    with pytest.raises(FedleakError, match="printed nothing"):
        pdf.print_pdf(page, tmp_path / "page.pdf", program)
    assert not (tmp_path / "page.pdf").exists()
