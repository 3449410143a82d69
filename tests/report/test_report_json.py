from __future__ import annotations

import math
import re
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from example_audit import example
from example_games import with_games
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.errors import TraceError
from fedleak.report import results_file
from fedleak.results import audit, defence_results, detail, users
from fedleak.results.audit import SCHEMA, Audit, Finding, Score, Threat, Untested, Utility
from fedleak.results.detail import Detail, PerUser

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "results.md"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
real = st.floats(allow_nan=False, allow_infinity=False)
maybe = st.none() | real
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | real | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
defences = st.none() | st.fixed_dictionaries({"name": text}, optional={"sigma": real})
metrics = st.sampled_from(["ap", "top1", "top5", "new"])
utilities = st.builds(
    Utility, metric=text, value=real, low=real, high=real, undefended=maybe, centralised=maybe, chance=maybe
)
scores = st.builds(
    Score,
    attack=text,
    adversary=text,
    metric=metrics,
    value=real,
    low=real,
    high=real,
    level=real,
    chance=real,
    chance_high=real,
    multiple=maybe,
    seeds=st.lists(st.integers(0, 9), max_size=2),
    defence=defences,
    control=st.none() | st.just("iid"),
    utility=st.none() | utilities,
    limit=maybe,
)
details = st.builds(
    Detail,
    defence=defences,
    users=st.lists(st.builds(PerUser, user=text, ap=real), max_size=2),
    recall=st.tuples(real, real).map(list),
    precision=st.tuples(real, real).map(list),
    null=st.lists(real, max_size=3),
    confusion_users=st.tuples(text).map(list),
    confusion=st.tuples(st.tuples(real).map(list)).map(list),
)
audits = st.builds(
    Audit,
    title=text,
    population=st.dictionaries(text, plain, max_size=3),
    federation=st.dictionaries(text, plain, max_size=3),
    findings=st.lists(st.builds(Finding), max_size=2),
    threats=st.lists(st.builds(Threat), max_size=2),
    attacks=st.dictionaries(text, text, max_size=2),
    scores=st.lists(scores, max_size=8),
    details=st.lists(details, max_size=2),
    untested=st.lists(st.builds(Untested), max_size=2),
    resolved=st.dictionaries(text, plain, max_size=3),
    schema=st.just(SCHEMA),
)


@settings(max_examples=60, deadline=None)
@given(audit=audits)
def test_whatever_is_written_is_read_back_with_its_scores_in_order(
    tmp_path_factory: pytest.TempPathFactory, audit: Audit
) -> None:
    folder = tmp_path_factory.mktemp("out")
    results_file.write(audit, folder)
    back = results_file.read_results(folder)

    def without(a: Audit) -> Audit:
        return msgspec.structs.replace(a, scores=[])

    assert without(back) == without(audit)
    key = msgspec.json.encode
    assert sorted(map(key, back.scores)) == sorted(map(key, audit.scores))
    assert results_file.encode(back) == results_file.encode(
        audit
    )  # order is a function of the content: a second writing keeps it


def test_scores_stand_run_by_run_then_attack_then_metric(tmp_path: Path) -> None:
    audit = example()
    shuffled = msgspec.structs.replace(audit, scores=sorted(audit.scores, key=lambda s: (s.metric, s.value)))
    results_file.write(shuffled, tmp_path)
    back = results_file.read_results(tmp_path).scores
    assert [(s.attack, s.metric) for s in back[:4]] == [
        ("reid-mlp", "ap"),
        ("reid-mlp", "top1"),
        ("reid-mlp", "top5"),
        ("reid-svm", "ap"),
    ]
    runs = list(dict.fromkeys((None if s.defence is None else s.defence["name"], s.control) for s in back))
    assert runs[0] == (None, None)
    assert runs[-1] == (None, "iid")


def test_the_file_is_its_owners_alone_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = results_file.write(example(), tmp_path / "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["results.json"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_score_that_is_not_a_number_is_refused_and_the_old_file_stays(tmp_path: Path, bad: float) -> None:
    audit = example()
    path = results_file.write(audit, tmp_path)
    before = path.read_bytes()
    broken = msgspec.structs.replace(audit.scores[0], low=bad)
    with pytest.raises(ValueError, match=r"audit\.scores\[0\]\.low is (nan|inf)"):
        results_file.write(msgspec.structs.replace(audit, scores=[broken]), tmp_path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_even_if_the_rest_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(f'{{"schema": {SCHEMA + 1}, "new": true}}')
    with pytest.raises(TraceError, match=rf"newer Fedleak \(schema {SCHEMA + 1}.*upgrade"):
        results_file.read_results(tmp_path)


def test_a_key_added_later_does_not_stop_this_version(tmp_path: Path) -> None:
    path = results_file.write(example(), tmp_path)
    before = results_file.read_results(tmp_path)
    content = msgspec.json.decode(path.read_bytes())
    content["scores"][0]["added_later"] = content["added_later"] = 1
    path.write_bytes(msgspec.json.encode(content))
    assert results_file.read_results(tmp_path) == before


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"schema": 1}', b'{"schema": 0}', b'{"schema": "1"}', b"\xff\xfe", b'{"schema": 1, '],
)
def test_a_damaged_or_foreign_file_is_explained(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "results.json").write_bytes(content)
    with pytest.raises(TraceError, match=re.escape(str(tmp_path / "results.json"))):
        results_file.read_results(tmp_path)


def test_any_cut_of_the_file_is_noticed(tmp_path: Path) -> None:
    path = results_file.write(example(users=4), tmp_path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, len(whole) // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match="damaged"):
            results_file.read_results(tmp_path)


@pytest.mark.parametrize("change", [{"recall": [0.5]}, {"confusion": [[1.0]]}, {"confusion_users": ["one"]}])
def test_lists_that_disagree_are_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    audit = example()
    details = [audit.details[0], msgspec.structs.replace(audit.details[1], **change)]
    results_file.write(msgspec.structs.replace(audit, details=details), tmp_path)
    with pytest.raises(TraceError, match=r"details\[1\]"):
        results_file.read_results(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": [["too", "few"]]},
        {"figures": [{"series": [{"name": "s", "x": [1], "y": [1, 2]}]}]},
        {"figures": [{"series": [{"name": "s", "x": [1], "y": [1], "labels": []}]}]},
        {"figures": [{"cells": [[1, 2], [3]]}]},
        {"figures": [{"cells": [[1, 2]], "y_ticks": ["one", "two"]}]},
    ],
)
def test_an_analysis_that_could_not_be_drawn_is_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    path = results_file.write(with_games(scores=[], details=[]), tmp_path)
    content = msgspec.json.decode(path.read_bytes())
    common = {"kind": "lines", "title": "", "x_label": "", "y_label": ""}
    change = {key: [{**common, **f} for f in value] if key == "figures" else value for key, value in change.items()}
    content["analyses"][1].update(change)
    path.write_bytes(msgspec.json.encode(content))
    with pytest.raises(TraceError, match=r"analyses\[1\]"):
        results_file.read_results(tmp_path)


def test_a_whole_audit_of_games_is_read_back(tmp_path: Path) -> None:
    audit = with_games()
    results_file.write(audit, tmp_path)
    back = results_file.read_results(tmp_path)
    assert (back.details, back.analyses) == (audit.details, audit.analyses)
    firsts: dict[str, Score] = {}
    for score in back.scores:
        firsts.setdefault(score.game, score)
    assert {game: score.metric for game, score in firsts.items()} == {
        "identify (seen=0.5)": "ap",
        "match": "ap",
        "profile": "ap",
        "attribute": "top1",
        "link": "gap1",
        "extract": "top1",
    }


def test_a_missing_result_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="fedleak score"):
        results_file.read_results(tmp_path)


def test_the_reference_documents_every_key() -> None:
    reference = REFERENCE.read_text()
    structs = [
        getattr(room, name)
        for room in (audit, detail, users, defence_results)
        for name in room.__all__
        if name != "SCHEMA"
    ]
    for struct in structs:
        section = reference.split(f"\n## {struct.__name__}\n")[1].split("\n## ")[0]
        documented = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
        assert documented == list(struct.__struct_fields__), struct.__name__
    assert f"version is {SCHEMA}" in reference
