"""What can be wrong with a recorded run or with what a plan says of it: each is explained in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from clinic import PLAN, record_run

from command_line import Run
from fedleak.errors import PlanError
from fedleak.plan.read import parse

REID = '[[attack]]\nname = "reid-knn"\n'


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    """A copy of the recorded run that may be damaged."""
    return Path(shutil.copytree(small, tmp_path / "run"))


def refused(fedleak: Run, text: str, tmp_path: Path) -> str:
    plan = tmp_path / "clinics.toml"
    plan.write_text(text + REID)
    done = fedleak("train", plan, "--out", "out")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("out/runs/*/*/run.json"))
    return done.stderr


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('[[defence]]\nname = "noise"\nsigma = 1.0\n', "have sent what they sent"),
        ("[inject]\n", None),
        ('[population]\nprior = "chrono"\n', "users and their data are as they were"),
        ('[record]\ndtype = "float16"\n', "recorded already"),
        ('[[analysis]]\nname = "distances"\n', "simulate-like"),
        ('[dataset]\nname = "digits"\n', "comes from one of them"),
        ('[audit]\ncontrols = ["iid"]\n', "possible here: rotated-owners"),
        ('[audit]\ncontrols = ["decoys"]\n', "no game of this plan has the control 'decoys'"),
    ],
)
def test_what_a_recorded_run_cannot_have_is_refused_by_the_plan(extra: str, said: str | None) -> None:
    if said is None:  # an empty table is one, too
        extra, said = "[inject]\nlength = 8\n", "cannot be injected"
    with pytest.raises(PlanError, match=said):
        parse(PLAN + extra + REID)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "clinics"', "seeds = [0, 1]", "happened once"),
        ("lr = 0.1", "rounds = 5", "a recorded run has its own"),
        ('[truth]\nowners = "key"', "", "link and disaggregate can be played"),
        ('data = "clinic_app.audit:prior"', "", "needs prior data of the users"),
    ],
)
def test_what_is_missing_in_the_plan_is_named(old: str, new: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        parse(PLAN.replace(old, new) + REID)


def test_reconstruction_asks_for_the_data_to_compare_with() -> None:
    with pytest.raises(PlanError, match="compared with the clients' own data"):
        parse(PLAN + '[audit]\nadversaries = ["server"]\n[[attack]]\nname = "representatives"\n')


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (":Net", ":Wide", "its 'hidden.weight' has the shape (20, 10), recorded 'hidden.weight' (16, 10)"),
        (":Net", ":Noisy", "its parameter 'norm.weight' (12,) was not recorded"),
        ('"clinic_app.task:Net"', '"mlp"', "does not fit the recorded run"),
        (":Net", ":Nets", "cannot be imported"),
        (":prior", ":renamed", "Give them the same names"),
        (":prior", ":wrong_shape", "fails on examples of shape (7,)"),
        (":prior", ":measured", "where (examples, 1) is needed to regress, as the labels are not whole numbers"),
        (":prior", ":failing", "FileNotFoundError: patients.parquet"),
        ('owners = "key"', 'owners = "nobody.csv"', "no such file"),
        ("lr = 0.1", 'train = "clinic_app.task:broken_train"', "RuntimeError: no such device"),
        ("lr = 0.1", 'train = "clinic_app.task:diverging_train"', "diverged in every round"),
    ],
)
def test_what_does_not_fit_the_run_is_named(
    old: str, new: str, said: str, small: Path, fedleak: Run, tmp_path: Path
) -> None:
    assert said in refused(fedleak, PLAN.replace('"run"', f'"{small}"').replace(old, new), tmp_path)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("user,client\n0,0\n", "the first line must be client,user"),
        ("client,user\nc-00000000,0\n", "is it the file of another run?"),
        ("client,user\n77,0\n78,1\n", "is it the file of another run?"),
        ("client,user\n0,0\n0,1\n", "users behind 1 client"),
        ("client,user\n0\n", "row 2: expected a client and a user"),
        ("", "it is 'empty'"),
    ],
)
def test_owners_that_make_no_sense_are_refused(rows: str, said: str, small: Path, fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "owners.csv").write_text(rows)
    text = PLAN.replace('"run"', f'"{small}"').replace('owners = "key"', 'owners = "owners.csv"')
    assert said in refused(fedleak, text, tmp_path)


def test_a_folder_that_is_no_recorded_run_is_refused(fedleak: Run, tmp_path: Path) -> None:
    assert "does not exist" in refused(fedleak, PLAN, tmp_path)
    (tmp_path / "run").mkdir()
    assert "is not a recorded run" in refused(fedleak, PLAN, tmp_path)
    (tmp_path / "run").rmdir()
    (tmp_path / "run").write_text("")
    assert "is a file" in refused(fedleak, PLAN, tmp_path)


def test_the_folder_of_the_trace_is_not_the_folder_of_the_run(run: Path, fedleak: Run, tmp_path: Path) -> None:
    assert f"did you mean {run}?" in refused(fedleak, PLAN.replace('"run"', f'"{run / "trace"}"'), tmp_path)


def test_the_folder_of_a_run_is_not_its_plan(small: Path, fedleak: Run) -> None:
    done = fedleak("simulate-like", small)
    assert done.returncode == 1 and "is a folder, not a plan; name the plan that audits" in done.stderr
    assert "--plan" in done.stderr


def test_a_truncated_run_is_refused(copied: Path, fedleak: Run, tmp_path: Path) -> None:
    file = copied / "trace" / "update-000.bin"
    with open(file, "r+b") as opened:
        opened.truncate(file.stat().st_size // 2)
    assert "is truncated" in refused(fedleak, PLAN, tmp_path)


def test_a_truncated_log_is_refused_where_the_recording_was_closed(copied: Path, fedleak: Run, tmp_path: Path) -> None:
    log = copied / "trace" / "log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))
    said = refused(fedleak, PLAN, tmp_path)
    assert "closed after 5 rounds, and the log has 3" in said


@pytest.mark.parametrize("lines", [0, 1])  # the first one is the initial model
def test_a_run_without_a_finished_round_is_refused(lines: int, copied: Path, fedleak: Run, tmp_path: Path) -> None:
    (copied / "trace" / "closed.json").unlink()
    log = copied / "trace" / "log"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:lines]))
    assert "holds no finished round; its server was stopped too early" in refused(fedleak, PLAN, tmp_path)


def test_a_run_of_a_newer_version_is_refused(copied: Path, fedleak: Run, tmp_path: Path) -> None:
    path = copied / "trace" / "header.json"
    envelope = json.loads(path.read_text())
    path.write_text(json.dumps({**envelope, "version": 99}))
    assert "install a newer Fedleak" in refused(fedleak, PLAN, tmp_path)


@pytest.mark.parametrize("content", ["{", '{"origin": 3}', "[" * 100_000, '{"state": "\\u001b[2J"}'])
def test_a_hostile_recorder_file_is_refused(content: str, copied: Path, fedleak: Run, tmp_path: Path) -> None:
    (copied / "recorder.json").write_text(content)
    said = refused(fedleak, PLAN, tmp_path)
    assert "recorder.json" in said
    assert "\x1b" not in said


def test_a_run_without_a_key_says_so(copied: Path, fedleak: Run, tmp_path: Path) -> None:
    shutil.rmtree(copied / "key")
    assert "has no key/" in refused(fedleak, PLAN, tmp_path)


def test_the_key_of_another_run_is_refused(copied: Path, fedleak: Run, tmp_path: Path) -> None:
    key = copied / "key" / "clients.jsonl"
    key.write_text(key.read_text().replace('"c-', '"c-0'))
    assert "is the key of another run: it knows none of the 12 clients" in refused(fedleak, PLAN, tmp_path)


def test_a_run_in_which_every_client_was_lost_is_refused(fedleak: Run, tmp_path: Path) -> None:
    record_run(tmp_path / "run", rounds=2, skip_rounds=(1, 2))
    assert "holds no update of any client in 2 rounds" in refused(fedleak, PLAN, tmp_path)


@pytest.mark.parametrize(("old", "new"), [(":Net", ":Wide"), (":prior", ":renamed")])
def test_the_check_of_a_run_says_what_does_not_fit_it(
    old: str, new: str, copied: Path, fedleak: Run, tmp_path: Path
) -> None:
    (tmp_path / "clinics.toml").write_text(PLAN.replace(old, new) + REID)
    done = fedleak("trace", "check", "run", "--plan", "clinics.toml")
    [said] = [line for line in done.stdout.splitlines() if line.startswith("plan ")]
    assert ("recorded 'hidden.weight' (16, 10)" if new == ":Wide" else "Give them the same names") in said


def test_a_single_client_is_too_few(fedleak: Run, tmp_path: Path) -> None:
    record_run(tmp_path / "run", rounds=2, present=1, clinics=1)
    assert "an audit needs two" in refused(fedleak, PLAN, tmp_path)
