"""Shadow clients beside a recorded run: which clients are kept, how they are imitated, and what survives a kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from clinic import PLAN, record_run
from clinic_app.task import train
from curious import BuildsTheModel, ReadsTheData

from fedleak.cli.main import cli
from fedleak.errors import AttackError, PlanError
from fedleak.pipeline.attack_runner import build_questions, predict
from fedleak.pipeline.runs import facts, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.population.data_quality import Finding
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

REID = '[[attack]]\nname = "reid-knn"\n'


def plan_of(run: Path, *changes: tuple[str, str]) -> Plan:
    text = PLAN.replace('"run"', f'"{run}"')
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse(text + REID)


def prepared(plan: Plan, out: Path) -> tuple[Path, list[Finding]]:
    """The folder of the overlay, and what was found."""
    [plain, *_] = runs(plan, out)
    train_run(plan, plain, lambda units: None)
    found = facts(plain)
    assert found is not None
    return plain.folder, list(found.findings)


def imitation(findings: list[Finding]) -> Finding:
    [one] = [finding for finding in findings if finding.kind == "imitation"]
    return one


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


@pytest.mark.parametrize("change", ["lr = 1.0", "lr = 0.01", "lr = 0.1\nclip = 0.01"])
def test_wrong_settings_are_told(change: str, small: Path, tmp_path: Path) -> None:
    _, findings = prepared(plan_of(small, ("lr = 0.1", change)), tmp_path / "out")
    found = imitation(findings)
    assert found.action == "warn", found.text
    assert ("much shorter" if change == "lr = 1.0" else "much longer") in found.text or "diverged" in found.text


def test_a_training_that_changes_nothing_is_told(small: Path, tmp_path: Path) -> None:
    change = ("lr = 0.1\nepochs = 2\nbatch = 8", 'train = "clinic_app.task:idle_train"')
    found = imitation(prepared(plan_of(small, change), tmp_path / "out")[1])
    assert found.action == "warn" and "changes nothing" in found.text


def test_data_of_other_users_is_told_by_the_cosine(small: Path, tmp_path: Path) -> None:
    right = imitation(prepared(plan_of(small), tmp_path / "right")[1])
    rows = "\n".join(f"{n},{(n + 5) % 12}" for n in range(12))
    (tmp_path / "owners.csv").write_text(f"client,user\n{rows}\n")
    wrong = imitation(prepared(plan_of(small, ('"key"', f'"{tmp_path / "owners.csv"}"')), tmp_path / "wrong")[1])
    own = [float(one.text.split("own client's update ")[1].split(",")[0]) for one in (right, wrong)]
    assert own[0] > 0.7 > own[1] + 0.2


def test_the_users_own_training_imitates_what_no_setting_can(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", train=train, rounds=4)  # with momentum
    ours = plan_of(run, ("lr = 0.1\nepochs = 2\nbatch = 8", 'train = "clinic_app.task:train"'))
    fit = imitation(prepared(ours, tmp_path / "own")[1])
    plain = imitation(prepared(plan_of(run), tmp_path / "plain")[1])
    lengths = [float(one.text.split("real updates are ")[1].split()[0]) for one in (fit, plain)]
    assert abs(lengths[0] - 1) < 0.1 < abs(lengths[1] - 1)
    again, _ = prepared(ours, tmp_path / "again")
    assert content(tmp_path / "own" / "runs/plain/seed-0/trace") == content(again / "trace")


def test_a_killed_overlay_goes_on_to_the_same_bytes(small: Path, tmp_path: Path) -> None:
    plan = plan_of(small)
    whole, _ = prepared(plan, tmp_path / "whole")
    [plain, *_] = runs(plan, tmp_path / "killed")
    child = os.fork()
    if child == 0:
        done = [0.0]

        def tick(units: float) -> None:
            done[0] += units
            if done[0] >= 3:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            train_run(plan, plain, tick)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert facts(plain) is None and Trace.open(plain.folder / "trace").rounds == 3
    train_run(plan, plain, lambda units: None)
    assert content(plain.folder) == content(whole)


def test_nobody_without_the_key_can_draw_the_same_numbers(small: Path, tmp_path: Path) -> None:
    folder, _ = prepared(plan_of(small), tmp_path / "one")
    copied = tmp_path / "copy"
    copied.mkdir()
    for part in ("trace", "recorder.json"):
        (copied / part).symlink_to(small / part)
    (copied / "key").mkdir()
    (copied / "key" / "clients.jsonl").write_bytes((small / "key" / "clients.jsonl").read_bytes())
    (copied / "key" / "salt").write_text("f" * 64)
    again, _ = prepared(plan_of(copied), tmp_path / "two")
    assert Truth.load(folder / "truth").seed != Truth.load(again / "truth").seed
    assert Trace.open(folder / "trace").header.clients != Trace.open(again / "trace").header.clients


def test_clients_and_users_without_each_other_are_left_out_and_named(small: Path, tmp_path: Path) -> None:
    folder, findings = prepared(plan_of(small, (":prior", ":few")), tmp_path / "out")
    told = {finding.text: finding.users for finding in findings if finding.kind == "owners"}
    assert told["No prior data of 2 users: their clients are left out."] == [["0"], ["1"]]
    assert told["Prior data of 2 users without a client: not a candidate."] == [["12"], ["13"]]
    truth, trace = Truth.load(folder / "truth"), Trace.open(folder / "trace")
    assert set(truth.users) == {str(number) for number in range(2, 12)}
    assert set(trace.header.clients) == set(truth.client_user)


def test_owners_may_be_a_file_or_a_callable_by_partition_node_or_pseudonym(small: Path, tmp_path: Path) -> None:
    expected = Truth.load(prepared(plan_of(small), tmp_path / "key")[0] / "truth").client_user
    lines = [line.split('"') for line in (small / "key" / "clients.jsonl").read_text().splitlines()]
    names = {words[11]: (words[3], words[7], words[11]) for words in lines}  # partition -> client, node, partition
    rows = [f"{names[str(number)][number % 3]},{number}" for number in range(12) if number != 5]
    (tmp_path / "owners.csv").write_text("client,user\n" + "\n".join(rows) + "\n99,99\n")
    folder, findings = prepared(plan_of(small, ('"key"', f'"{tmp_path / "owners.csv"}"')), tmp_path / "file")
    found = Truth.load(folder / "truth").client_user
    assert {c: u for c, u in found.items() if c in {names[p][0] for p in names}}.items() <= expected.items()
    told = " ".join(finding.with_users() for finding in findings)
    assert "1 client without an owner" in told and "1 owner never took part" in told and "Users: 99." in told
    called, _ = prepared(plan_of(small, ('"key"', '"clinic_app.audit:owners"')), tmp_path / "callable")
    assert Truth.load(called / "truth").client_user == expected


def test_a_run_that_was_not_closed_is_audited_and_said_so(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", rounds=5, close=False, skip_rounds=(3,))
    folder, findings = prepared(plan_of(run), tmp_path / "out")
    told = " ".join(finding.text for finding in findings)
    assert "was not closed" in told and "1 of 5 rounds were recorded without updates" in told
    trace = Trace.open(folder / "trace")
    assert trace.finished and trace.rounds == 5
    assert [note.why for note in trace.dropped()] == ["timed out"]
    assert trace.span(3).start == trace.span(3).stop  # no shadow client trains where nobody took part


def test_every_second_round_and_some_layers_are_enough(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", rounds=8, every=2, layers=["out"])
    folder, findings = prepared(plan_of(run), tmp_path / "out")
    assert "every 2 rounds" in " ".join(finding.text for finding in findings)
    trace = Trace.open(folder / "trace")
    assert trace.header.unrecorded == ("hidden",)
    assert not trace.updates("hidden").any() and np.abs(trace.updates("out")).max() > 0
    assert set(trace.round.tolist()) == {2, 4, 6, 8}
    assert imitation(findings).action == "keep"


def test_sums_only_have_no_shadow_clients(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", rounds=4, sums=True)
    folder, findings = prepared(plan_of(run), tmp_path / "out")
    trace = Trace.open(folder / "trace")
    assert not trace.header.holds_updates and max(trace.header.shadow) == -1
    assert "Only sums were recorded" in " ".join(finding.text for finding in findings)


def test_plain_lists_of_arrays_are_matched_by_order(tmp_path: Path) -> None:
    run = record_run(tmp_path / "run", rounds=3, named=False)
    trace = Trace.open(prepared(plan_of(run), tmp_path / "out")[0] / "trace")
    assert [layer.name for layer in trace.header.layout] == ["hidden", "out"]
    there = Trace.open(run / "trace")
    assert np.array_equal(trace.snapshot(3)["out"], np.concatenate([there.snapshot(3)[f"array-00{n}"] for n in (2, 3)]))


def test_a_data_set_and_a_training_of_ones_own_train_a_federation_here(tmp_path: Path) -> None:
    text = """
    [dataset]
    name = "clinic_app.audit:prior"
    background = "clinic_app.audit:background"
    [model]
    name = "clinic_app.task:Net"
    [federation]
    rounds = 2
    train = "clinic_app.task:plain_train"
    centralised = false
    [[attack]]
    name = "reid-knn"
    """
    plan = parse(text)
    [plain, *_] = runs(plan, tmp_path / "out")
    train_run(plan, plain, lambda units: None)
    trace = Trace.open(plain.folder / "trace")
    assert trace.rounds == 2 and np.abs(trace.updates("out")).max() > 0
    assert "train" not in trace.header.settings  # code is never named by a trace
    stepped = parse(text + '[[defence]]\nname = "dp-sgd"\nnoise = 1.0\nclip = 1.0\n')
    with pytest.raises(PlanError, match="happen inside 'clinic_app"):
        train_run(stepped, runs(stepped, tmp_path / "defended")[-1], lambda units: None)


def test_the_check_reads_the_owners_and_builds_the_model(small: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan_of(small).text)
    checked = CliRunner().invoke(cli, ["check", str(tmp_path / "plan.toml")])
    assert checked.exit_code == 0, checked.exception
    assert "valid; reads a recorded run" in checked.output and "its time is not estimated" in checked.output
    assert "Data: 12 users" in checked.output and "Model: " in checked.output


def test_an_attack_cannot_import_the_module_that_holds_the_data(small: Path, tmp_path: Path) -> None:
    plan = plan_of(small)
    prepared(plan, tmp_path / "out")
    [plain, *_] = runs(plan, tmp_path / "out")
    [(_, game, adversary), *_] = plain.variant.plays(plan)
    asked = build_questions(plain, game)
    with pytest.raises(AttackError, match=r"No module named 'clinic_app\.audit'"):
        predict(plain, ReadsTheData(), game, adversary, asked)
    # The model itself can be built there.
    assert predict(plain, BuildsTheModel(), game, adversary, asked).predictions.shape == (len(asked.questions), 12)
