"""The ledger of real runs: the same after kill -9 and resuming, limits with exit code 3, and the statement as JSON."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedleak.cli.main import main

PLAN = """
seeds = [0]
model = { name = "mlp", hidden = [8] }
LIMITS

[dataset]
name = "digits"
users = 6

[federation]
rounds = ROUNDS
fraction = 0.4
batch = 20
weighting = "equal"
centralised = false

[audit]
controls = []
adaptive = false

[[attack]]
name = "reid-centroid"

[[defence]]
name = "dp-fedavg"
noise = 20.0
clip = 1.0
delta = 1e-3
deployed = true

[[defence]]
name = "dp-sgd"
noise = 4.0
"""


# Ends itself as `kill -9` would, in the middle of a round: after five of the defended run.
KILLED = """
import os, signal
from fedleak.cli.main import main
from fedleak.trace.writer import TraceWriter

append = TraceWriter.append

def dying(self, record, *args, **kwargs):
    if self.folder.parts[-3].startswith("dp-fedavg") and record.number == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    append(self, record, *args, **kwargs)

TraceWriter.append = dying
main()
"""


def written(folder: Path, limits: str = "", rounds: int = 6) -> Path:
    path = folder / "plan.toml"
    path.write_text(PLAN.replace("LIMITS", limits).replace("ROUNDS", str(rounds)))
    return path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def accounts(folder: Path) -> dict[str, dict[str, object]]:
    """By pseudonym, of the first defence that states something for clients."""
    found = json.loads((folder / "epsilon.json").read_text())
    [ledger] = next(run for run in found["runs"] if run["defence"]["name"] == "dp-fedavg")["ledgers"]
    return {one["client"]: one for one in ledger["accounts"]}


def test_an_audit_keeps_a_ledger_and_holds_it_against_the_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, out, target = written(tmp_path, "limits = {epsilon = {client = 0.3}}"), tmp_path / "out", tmp_path / "e.json"
    assert run("audit", str(plan), "--out", str(out), "--jobs", "1") == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "Spent in 6 rounds under dp-fedavg, at client level" in said and "OVER THE LIMIT of 0.30" in said
    assert "Over the plan's limit: [limits.epsilon] client" in said
    result = json.loads((out / "results.json").read_text())
    assert [one["stated_by"] for one in result["spendings"]] == ["dp-fedavg", "dp-sgd"]
    assert result["budgets"][0]["exceeded"] and result["spendings"][0]["left"] < 0
    # The result does not say who took part when: with secret participation, an epsilon rests on that.
    assert not any("d-" in json.dumps(one) for one in result["spendings"])
    assert "OVER THE LIMIT" in (out / "report.html").read_text()
    # The limits of a plan change nothing of what was trained.
    plan = written(tmp_path, "limits = {epsilon = {client = 50.0, record = 50.0}}")
    assert run("ledger", str(plan), "--out", str(out), "--json", str(target)) == 0
    assert "is left" in capsys.readouterr().out
    found = json.loads(target.read_text())
    assert found["schema"] == 1 and len(found["runs"]) == 2
    [statement] = found["runs"][0]["statements"]
    for key in (
        "epsilon",
        "delta",
        "unit",
        "units",
        "adjacency",
        "trust_model",
        "trusted",
        "protects_against",
        "public",
    ):
        assert statement[key], key
    for key in (
        "mechanism",
        "noise_multiplier",
        "clipping_norm",
        "sampling",
        "composition",
        "accountant",
        "not_covered",
    ):
        assert statement[key], key
    [ledger] = found["runs"][0]["ledgers"]
    assert ledger["spending"]["clients"] == 6
    taken = [len(one["rounds"]) for one in ledger["accounts"]]
    spent = [one["epsilon"] for one in ledger["accounts"]]
    assert sorted(zip(taken, spent, strict=True)) == sorted(zip(sorted(taken), sorted(spent), strict=True))
    assert 0 < sum(taken) <= 6 * 4


def test_the_ledger_is_the_same_after_a_kill_and_a_resumed_run(tmp_path: Path) -> None:
    plan, killed, whole = written(tmp_path, rounds=12), tmp_path / "killed", tmp_path / "whole"
    plan.write_text(plan.read_text()[: plan.read_text().rindex("[[defence]]")])
    ended = subprocess.run([sys.executable, "-c", KILLED, "train", str(plan), "--jobs", "1", "--out", str(killed)])
    assert ended.returncode == -signal.SIGKILL
    target = ("--json", str(tmp_path / "epsilon.json"))
    assert run("ledger", str(plan), "--out", str(killed), *target) == 0
    early = accounts(tmp_path)
    assert run("train", str(plan), "--out", str(killed), "--jobs", "1") == 0
    assert run("ledger", str(plan), "--out", str(killed), *target) == 0
    resumed = accounts(tmp_path)
    assert run("train", str(plan), "--out", str(whole), "--jobs", "1") == 0
    assert run("ledger", str(plan), "--out", str(whole), *target) == 0
    # What was spent before the kill is the beginning of what is spent after it, to the last digit.
    lengths = []
    for client, one in early.items():
        n = len(one["rounds"])  # type: ignore[arg-type]
        assert resumed[client]["rounds"][:n] == one["rounds"]  # type: ignore[index]
        assert resumed[client]["after"][:n] == one["after"]  # type: ignore[index]
        lengths.append(len(resumed[client]["rounds"]) - n)  # type: ignore[arg-type]
    assert max(lengths) > 0 and max(len(one["rounds"]) for one in early.values()) > 0  # type: ignore[arg-type]
    assert sorted(map(str, resumed.values())) == sorted(map(str, accounts(tmp_path).values()))


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ("limits = {epsilon = {user = 1.0}}", "unknown unit 'user'"),
        ("limits = {epsilon = {client = -1.0}}", "> 0"),
        ("limits = {epsilon = 3.0}", "expected a table"),
    ],
)
def test_a_wrong_limit_is_one_line(limits: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", str(written(tmp_path, limits))) == 1
    assert said in capsys.readouterr().err


def test_a_limit_needs_a_deployed_defence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "limits = {epsilon = {client = 1.0}}")
    path.write_text(path.read_text().replace("deployed = true", ""))
    assert run("check", str(path)) == 1
    assert "no defence is deployed" in capsys.readouterr().err
