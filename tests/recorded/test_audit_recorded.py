"""An audit of a federation that Fedleak did not train, from the recorder to the report."""

from __future__ import annotations

import io
import json
import stat
from pathlib import Path

import numpy as np
import pytest
from clinic import ATTACKS, PLAN, record_run
from clinic_app.data import CLINICS
from clinic_app.task import Noisy
from rich.console import Console

from command_line import Run
from fedleak.api import Result, audit, load
from fedleak.plan.read import parse
from fedleak.record.recording import Recording
from fedleak.report import html_page, terminal
from fedleak.results.audit import Audit, Score
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth


def score(result: Result, attack: str, metric: str = "ap", control: str | None = None) -> Score:
    [found] = [s for s in result.scores if (s.attack, s.metric, s.control) == (attack, metric, control)]
    return found


def test_clients_of_a_recorded_run_are_named_and_rotated_owners_are_not(audited: Result) -> None:
    strong, knn = score(audited, "reid-strong"), score(audited, "reid-knn")
    assert strong.leaks and strong.low > 2 * strong.chance
    assert knn.leaks
    assert strong.value > knn.value  # it imitates clients with the user's own model, in its confined process
    assert strong.options == CLINICS
    for attack in ("reid-strong", "reid-knn"):
        rotated = score(audited, attack, control="rotated-owners")
        assert not rotated.leaks
        assert rotated.low < rotated.chance
    assert not any(text.startswith("The control failed") for text in audited.warnings)


def test_attacks_on_a_recorded_run_are_confined(audited: Result) -> None:
    assert all("Landlock" in how for how in audited.audit.isolation.values()), audited.audit.isolation


def test_the_result_says_what_a_recorded_run_cannot_show(audited: Result) -> None:
    told = {one.what: one.why for one in audited.audit.untested}
    for what in ("controls iid and fresh-data", "defences", "utility of the model", "variation between runs"):
        assert "simulate-like" in told[what]
    assert score(audited, "reid-knn").utility is None
    assert audited.audit.federation["rounds"] == 14
    assert audited.audit.federation["clients"] == CLINICS
    assert audited.audit.federation["trained by: framework"] == "torch"
    assert "test examples" not in audited.audit.population


def test_the_report_has_no_utility_where_there_is_none(audited: Result) -> None:
    again = load(audited.folder).audit
    assert again.scores == audited.scores
    page, said = html_page.render(again), shown(again)
    assert "Imitated against real updates" in page
    assert "simulate-like" in page
    assert "rotated-owners" in page or "rotated owners" in page
    assert "constant prediction" not in page and ">utility<" not in page
    assert "Utility" not in said and "reid-strong" in said


def shown(found: Audit) -> str:
    text = io.StringIO()
    terminal.show(found, Console(file=text, width=120))
    return text.getvalue()


def test_the_imitation_fits_where_the_settings_are_right(audited: Result) -> None:
    [fit] = [one for one in audited.audit.findings if one.kind == "imitation"]
    assert fit.action == "keep", fit.text
    assert fit.count >= 30


def test_recorded_updates_are_kept_to_the_bit_and_shadow_clients_stand_beside_them(run: Path, audited: Result) -> None:
    recorded, overlay = Recording.open(run).trace, Trace.open(audited.folder / "runs/plain/seed-0/trace")
    truth = Truth.load(audited.folder / "runs/plain/seed-0/truth")
    assert overlay.header.beside and overlay.rounds == recorded.rounds
    shadow, names = np.asarray(overlay.shadow), overlay.header.clients
    for layer in ("hidden", "out"):
        there = recorded.updates(layer)
        for number in range(1, recorded.rounds + 1):
            here = overlay.span(number)
            rows = {names[overlay.client[r]]: r for r in range(here.start, here.stop) if shadow[r] < 0}
            mine = recorded.span(number)
            expected = {recorded.header.clients[recorded.client[r]]: r for r in range(mine.start, mine.stop)}
            assert rows.keys() == expected.keys()
            for client, row in rows.items():
                assert np.array_equal(overlay.updates(layer)[row], there[expected[client]])
                assert overlay.size[row] == 32
    for number in (0, 7, 14):
        for name, values in recorded.snapshot(number).items():
            assert np.array_equal(overlay.snapshot(number)[name], values)
    counts = np.bincount(shadow[shadow >= 0])
    assert len(counts) == CLINICS and counts.min() == counts.max() == 7  # as often as the median client
    # Neither names nor positions tell real and shadow clients apart from each other.
    first = [shadow[overlay.span(number).start] >= 0 for number in range(1, 15)]
    assert 0 < sum(first) < 14
    assert set(truth.client_user.values()) == set(truth.users) == {str(n) for n in range(CLINICS)}


def test_neither_trace_holds_code_or_names(run: Path, audited: Result) -> None:
    for folder in (run / "trace", audited.folder / "runs/plain/seed-0/trace"):
        content = b"".join(path.read_bytes() for path in folder.iterdir() if path.suffix != ".bin")
        assert b"clinic_app" not in content
        assert b"node-10" not in content
    for path in (run.parent / "out").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_one_command_audits_a_recorded_run(run: Path, fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(run)  # paths are relative to the folder that fedleak is started in
    plan = tmp_path / "clinics.toml"
    plan.write_text(PLAN + '[audit]\ncontrols = []\n[[attack]]\nname = "reid-centroid"\n')
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "reid-centroid" in done.stdout
    assert "Utility" not in done.stdout
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert all(one["utility"] is None for one in results["scores"])
    again = fedleak("audit", plan, "--out", "out")
    assert again.returncode == 0, again.stderr


def test_dropout_running_statistics_frozen_parts_and_outputs_with_logits_can_be_imitated(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", net=Noisy, rounds=8, present=9, dtype="float16")
    plan = (PLAN + ATTACKS).replace('"run"', f'"{run}"').replace(":Net", ":Noisy")
    plan = plan.replace("[trace]", "[audit]\ncontrols = []\n[trace]")
    result = audit(parse(plan), tmp_path / "out", jobs=1)
    assert score(result, "reid-strong").leaks
    told = {one.kind: one.text for one in result.audit.findings}
    assert "norm:buffers" in told["recorded"]
    assert not [text for text in result.warnings if "imitation" in text], result.warnings
    layers = {layer.name for layer in Trace.open(tmp_path / "out/runs/plain/seed-0/trace").header.layout}
    # The frozen layer was drawn at random by the program that trained, so the model itself does not know its values.
    assert layers == {"base", "norm", "classifier"}


@pytest.mark.parametrize("named", [True, False])
def test_linking_needs_no_owners(named: bool, tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", rounds=6, identify=False, named=named)
    plan = PLAN.replace('"run"', f'"{run}"').replace('[truth]\nowners = "key"\n', "").replace("data =", "background =")
    plan = plan.replace("audit:prior", "audit:background") + '[[attack]]\nname = "link-cosine"\nshadows = 8\n'
    result = audit(parse(plan), tmp_path / "out", jobs=1)
    assert score(result, "link-cosine", "auc").leaks
    assert "the plan runs no control" in {one.why for one in result.audit.untested}


def test_clients_are_recovered_from_sums_and_not_with_a_shuffled_selection(run: Path, tmp_path: Path) -> None:
    plan = PLAN.replace('"run"', f'"{run}"') + '[[attack]]\nname = "disaggregate-ridge"\n'
    plan = plan.replace("[trace]", '[audit]\nadversaries = ["aggregate-server"]\n[trace]')
    result = audit(parse(plan), tmp_path / "out", jobs=1)
    # With prior data there are shadow clients, which are in no sum: naming them in a selection would spoil this.
    assert score(result, "disaggregate-ridge", "likeness").value > 0.5
    assert not score(result, "disaggregate-ridge", "recovered", "shuffled-selection").leaks
