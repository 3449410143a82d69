"""What goes wrong in real life: each fault is explained, and nothing that was finished is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from command_line import TINY, Run, command

LONG = TINY.replace("rounds = 30", "rounds = 300") + "[audit]\ncontrols = []\n"


def started(plan: Path, out: str, *more: object) -> subprocess.Popen[str]:
    """A run in the background, once its first rounds are recorded."""
    process = subprocess.Popen(
        command("train", plan, "--out", out, *more),
        cwd=plan.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Where tests run in the background of a shell, children would inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    log = plan.parent / out / "runs" / "plain" / "seed-0" / "trace" / "log"
    deadline = time.monotonic() + 60
    while not (log.exists() and log.read_bytes().count(b"\n") > 20):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def recorded(out: Path) -> dict[str, bytes]:
    """Every file of every trace, truth and prior."""
    kept = [p for p in (out / "runs").rglob("*") if p.is_file() and p.name not in (".lock", "run.json")]
    return {str(p.relative_to(out)): p.read_bytes() for p in kept}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_run_goes_on_to_the_same_bytes(jobs: int, plan: Path, fedleak: Run, tmp_path: Path) -> None:
    plan.write_text(LONG)
    process = started(plan, "killed", "--jobs", jobs)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "killed" / "runs" / "plain" / "seed-0" / "run.json").exists()
    done = fedleak("train", plan, "--out", "killed")
    assert done.returncode == 0, done.stderr
    assert fedleak("train", plan, "--out", "whole").returncode == 0
    assert recorded(tmp_path / "killed") == recorded(tmp_path / "whole")


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_stops_with_a_word_and_the_run_can_go_on(jobs: int, plan: Path, fedleak: Run) -> None:
    plan.write_text(LONG)
    process = started(plan, "out", "--jobs", jobs)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to everyone in the group
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted; finished work is kept" in errors
    assert "Traceback" not in errors
    assert fedleak("train", plan, "--out", "out").returncode == 0


def test_two_processes_on_one_folder_do_not_mix(plan: Path, fedleak: Run) -> None:
    plan.write_text(LONG.replace("rounds = 300", "rounds = 100000"))  # it must still run when the second one comes
    process = started(plan, "out")
    try:
        second = fedleak("train", plan, "--out", "out")
        assert second.returncode == 1
        assert f"in use by another run (process {process.pid})" in second.stderr
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_folder_with_another_plans_results_is_refused(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    fedleak("train", plan, "--out", "out")
    before = recorded(tmp_path / "out")
    plan.write_text(TINY.replace("lr = 0.1", "lr = 0.2"))
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 1
    assert "out holds the results of another plan ('tiny')" in done.stderr
    assert recorded(tmp_path / "out") == before


def test_a_plan_that_failed_before_training_can_be_mended(plan: Path, fedleak: Run) -> None:
    plan.write_text(TINY.replace("[model]", "[population]\nusers = 80\n[model]"))
    assert fedleak("train", plan, "--out", "out").returncode == 1
    plan.write_text(TINY)
    done = fedleak("train", plan, "--out", "out")
    assert done.returncode == 0, done.stderr


def test_a_folder_with_something_else_in_it_is_refused(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"x")
    done = fedleak("audit", plan, "--out", "photos")
    assert done.returncode == 1
    assert "photos is not an output folder of Fedleak and is not empty" in done.stderr
    assert [p.name for p in (tmp_path / "photos").iterdir()] == ["holiday.jpg"]


def test_a_damaged_trace_is_named_and_not_attacked(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    fedleak("train", plan, "--out", "out")
    victim = tmp_path / "out" / "runs" / "plain" / "seed-0" / "trace" / "update-001.bin"
    content = bytearray(victim.read_bytes())
    content[100] ^= 1
    victim.write_bytes(content)
    done = fedleak("attack", plan, "--out", "out")
    assert done.returncode == 1
    assert "update-001.bin" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_that_diverges_is_named_or_left_out_as_the_plan_says(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    diverging = TINY.replace("lr = 0.1", "lr = 1e30")
    plan.write_text(diverging)
    done = fedleak("train", plan, "--out", "stop")
    assert done.returncode == 1
    assert "round 1: client d-" in done.stderr
    assert 'on_nan = "skip"' in done.stderr
    plan.write_text(diverging.replace("lr = 1e30", 'lr = 1e30\non_nan = "skip"'))
    done = fedleak("train", plan, "--out", "skip")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "skip" / "runs" / "plain" / "seed-0" / "trace" / "notes.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 30", "round = 30", "unknown key 'round'; did you mean 'rounds'?"),
        ("[model]", "[population]\nusers = 80\n[model]", "users = 80, but only 8 of the 8"),
        ('name = "reid-knn"', 'name = "reid-knn"\nlayer = "fc9"', "has no layer 'fc9'"),
        ('name = "mlp"\nhidden = [8]', 'name = "rating"', "model 'rating' cannot learn the task 'classify'"),
        ('name = "mlp"\nhidden = [8]', 'name = "word-lm"', "model 'word-lm' cannot learn the task 'classify'"),
    ],
)
def test_an_error_is_one_message_and_debug_shows_where(
    old: str, new: str, message: str, plan: Path, fedleak: Run
) -> None:
    plan.write_text(TINY.replace(old, new))
    done = fedleak("audit", plan, "--out", "out")
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in fedleak("--debug", "audit", plan, "--out", "out").stderr


def test_wrong_usage_is_code_2(fedleak: Run) -> None:
    assert fedleak("audit").returncode == 2
    assert fedleak("adit", "x").returncode == 2


def test_a_full_disk_keeps_the_finished_rounds(plan: Path, fedleak: Run, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        plan.write_text(LONG)
        done = fedleak("train", plan, "--out", disk / "out")
        assert done.returncode == 1
        assert re.search(r"no room for round \d+ in .*rerun the same command to resume", done.stderr), done.stderr
        assert "Traceback" not in done.stderr
        log = disk / "out" / "runs" / "plain" / "seed-0" / "trace" / "log"
        assert log.read_bytes().count(b"\n") > 5
        subprocess.run(["mount", "-o", "remount,size=200m", disk], check=True)
        assert fedleak("train", plan, "--out", disk / "out").returncode == 0
    finally:
        # Lazily: a writer that failed may be collected, and let go of its files, only later.
        subprocess.run(["umount", "--lazy", disk], check=True)
