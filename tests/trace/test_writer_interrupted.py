"""Crashes, kills and full disks: what was finished is kept, and the run goes on to the same bytes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Layer, rng_for
from fedleak.errors import TraceError
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter
from recorded import a_round, append_forever, contents, everything, header, processes, record

HEAVY = (Layer("wide", (("weight", (512, 256)),)), Layer("deep", (("weight", (256, 256)),)))


@pytest.fixture(scope="module")
def stages() -> Iterator[Path]:
    """The same run after each of its rounds."""
    with tempfile.TemporaryDirectory() as name:
        for until in range(1, 5):
            record(Path(name) / str(until), header(), until=until)
        yield Path(name)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_crash_between_any_two_bytes_costs_at_most_the_round(stages: Path, data: st.DataObject) -> None:
    """Files grow in a fixed order, the log last; stop after any byte of it and go on."""
    done = data.draw(st.integers(1, 3))
    before, after = contents(stages / str(done)), contents(stages / str(done + 1))
    order = [table.name for table in header().tables()] + ["log"]
    left = data.draw(st.integers(0, sum(len(after[name]) - len(before[name]) for name in order)))
    total = left
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(stages / str(done), folder, dirs_exist_ok=True)
        for name in order:
            part = after[name][len(before[name]) :][:left]
            left -= len(part)
            with open(Path(folder) / name, "ab") as file:
                file.write(part)
        whole = total == sum(len(after[name]) - len(before[name]) for name in order)
        assert Trace.open(Path(folder)).rounds == done + whole
        record(Path(folder), header())
        assert contents(Path(folder)) == contents(stages / "4")


def test_a_run_killed_at_random_moments_ends_with_the_same_bytes(tmp_path: Path) -> None:
    head = header(layout=HEAVY, rounds=60)
    record(tmp_path / "whole", head, per_round=2)
    context = processes()
    killed = tmp_path / "killed"
    rng = rng_for(3, "kill")
    survived = [0]
    for _ in range(6):
        process = context.Process(target=append_forever, args=(str(killed), head, 2))
        process.start()
        # Let it get somewhere first, then strike at any point of the rounds that follow.
        while process.is_alive() and _lines(killed) < survived[-1] + 2:
            time.sleep(0.001)
        time.sleep(float(rng.uniform(0, 0.03)))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        trace = Trace.open(killed)
        trace.verify()
        survived.append(trace.rounds)
    assert survived == sorted(survived)
    assert 0 < survived[1] < 60, "the first process was not killed in the middle"
    record(killed, head, per_round=2)
    assert contents(killed) == contents(tmp_path / "whole")


def _lines(folder: Path) -> int:
    try:
        return (folder / "log").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def test_a_round_that_is_interrupted_and_tried_again_leaves_the_same_bytes(tmp_path: Path) -> None:
    head = header(layout=HEAVY, rounds=12)
    record(tmp_path / "whole", head, per_round=4)
    writer = record(tmp_path / "stopped", head, until=1, per_round=4)
    rng = rng_for(4, "interrupt")
    interrupted = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(2, 13):
            following = a_round(head, number, per_round=4)
            # Longer from try to try, so that every stage is hit and every round still ends.
            delay = float(rng.uniform(1e-5, 1e-3))
            while writer.rounds < number:
                try:
                    signal.setitimer(signal.ITIMER_REAL, delay)
                    writer.append(following)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupted += 1
                delay *= 1.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 5
    TraceWriter.open(tmp_path / "stopped", head)  # cuts off what an interrupt of the clearing up may have left
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "fedleak-test", str(disk)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a tmpfs")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_keeps_the_finished_rounds_and_the_run_goes_on_once_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    head = header(layout=HEAVY, rounds=3)
    record(tmp_path / "whole", head, per_round=1)
    folder = small_disk / "trace"
    with pytest.raises(TraceError, match=r"no room for round 1 in .*needs [\d,]+ bytes, [\d,]+ are free.*same command"):
        record(folder, head, per_round=1)
    trace = Trace.open(folder)
    trace.verify()
    assert trace.rounds == 0
    # Rolled back at once, so that what little is left on the disk is not taken by half a round.
    assert sum(len(data) for name, data in contents(folder).items() if name != "snapshots.bin") < 10_000
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    record(folder, head, per_round=1)
    assert contents(folder) == contents(tmp_path / "whole")


def test_a_limit_on_file_size_keeps_the_finished_rounds(tmp_path: Path) -> None:
    head = header(rounds=200)
    record(tmp_path / "whole", head)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(TraceError, match=r"no room for round (\d+).*resume from round \1"):
            record(tmp_path / "limited", head)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found = everything(tmp_path / "limited")
    assert found[0].startswith(b"(Header(")
    assert 0 < Trace.open(tmp_path / "limited").rounds < 200
    record(tmp_path / "limited", head)
    assert contents(tmp_path / "limited") == contents(tmp_path / "whole")
