from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import LAYOUT, a_round, append_forever, contents, everything, header, params, processes, record

from fedleak.core import Layer, derive
from fedleak.errors import TraceError
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter, estimate

HEAVY = (Layer("wide", (("weight", (512, 256)),)), Layer("deep", (("weight", (256, 256)),)))


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    head = header()
    record(tmp_path / "trace", head)
    trace = Trace.open(tmp_path / "trace")
    assert trace.header == head
    assert trace.finished
    for layer in LAYOUT:
        expected = np.concatenate([a_round(head, number).updates[layer.name] for number in range(1, 5)])
        np.testing.assert_array_equal(trace.updates(layer.name), expected)
        np.testing.assert_array_equal(np.concatenate(list(trace.blocks(layer.name, 5))), expected)
        np.testing.assert_array_equal(trace.snapshot(0)[layer.name], params(LAYOUT, (), "weights", 0)[layer.name])
        np.testing.assert_array_equal(trace.snapshot(3)[layer.name], a_round(head, 3).weights[layer.name])
        np.testing.assert_array_equal(trace.aggregate(4)[layer.name], a_round(head, 4).aggregate[layer.name])
    senders = np.concatenate([a_round(head, number).participants for number in range(1, 5)])
    np.testing.assert_array_equal(trace.device, senders)
    np.testing.assert_array_equal(trace.shadow, np.array(head.shadow)[senders])
    np.testing.assert_array_equal(trace.size, np.concatenate([a_round(head, number).sizes for number in range(1, 5)]))
    np.testing.assert_array_equal(trace.round, np.repeat([1, 2, 3, 4], 3))
    assert [(note.round, note.device) for note in trace.dropped()] == [(1, "d-0"), (3, "d-0")]


def test_nothing_is_written_outside_the_folder_whatever_the_layers_are_called(tmp_path: Path) -> None:
    record(tmp_path / "a" / "b" / "trace", header())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["trace"]


def test_a_round_in_which_nobody_is_left_is_recorded(tmp_path: Path) -> None:
    head = header(rounds=3)
    writer = record(tmp_path, head, until=1)
    writer.append(a_round(head, 2, per_round=0))
    writer.append(a_round(head, 3))
    trace = Trace.open(tmp_path)
    trace.verify()
    np.testing.assert_array_equal(trace.round, [1, 1, 1, 3, 3, 3])
    assert len(trace.updates("hidden")) == 6


def test_a_channel_of_sums_leaves_no_update_on_disk(tmp_path: Path) -> None:
    record(tmp_path, header(holds_updates=False))
    assert not list(tmp_path.glob("update*"))
    trace = Trace.open(tmp_path)
    assert len(trace.device) == 12
    with pytest.raises(TraceError, match="sums only"):
        trace.updates("hidden")


def test_float16_halves_the_updates_and_keeps_them_close(tmp_path: Path) -> None:
    record(tmp_path / "full", header())
    record(tmp_path / "half", header(dtype="float16"))
    full, half = (Trace.open(tmp_path / name) for name in ("full", "half"))
    assert half.updates("hidden").nbytes * 2 == full.updates("hidden").nbytes
    np.testing.assert_allclose(next(half.blocks("hidden")), full.updates("hidden"), rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(half.snapshot(4)["hidden"], full.snapshot(4)["hidden"])


def test_an_update_too_large_for_float16_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    head = header(dtype="float16")
    writer = record(tmp_path, head, until=1)
    before = contents(tmp_path)
    record_2 = a_round(head, 2)
    huge = dataclasses.replace(record_2, updates={**record_2.updates, "hidden": record_2.updates["hidden"] * 1e6})
    with pytest.raises(TraceError, match=r"round 2.*'hidden'.*float32"):
        writer.append(huge)
    assert contents(tmp_path) == before


def test_rounds_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    head = header()
    writer = record(tmp_path, head, until=1)
    with pytest.raises(ValueError, match="cannot follow"):
        writer.append(a_round(head, 3))
    with pytest.raises(ValueError, match="device"):
        writer.append(dataclasses.replace(a_round(head, 2), participants=np.array([0, 1, 6])))
    with pytest.raises(ValueError, match="shape"):
        writer.append(dataclasses.replace(a_round(head, 2), participants=np.array([0, 1])))
    with pytest.raises(ValueError, match="shape"):
        writer.append(dataclasses.replace(a_round(head, 2), weights=a_round(head, 2).updates))
    with pytest.raises(ValueError, match="already started"):
        writer.start(params(LAYOUT, (), "weights", 0))


def test_a_resumed_run_goes_on_from_the_last_model(tmp_path: Path) -> None:
    head = header()
    record(tmp_path, head, until=2)
    writer = TraceWriter.open(tmp_path, head)
    assert writer.rounds == 2
    assert writer.weights is not None
    for name, values in a_round(head, 2).weights.items():
        np.testing.assert_array_equal(writer.weights[name], values)


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    record(tmp_path, header())
    before = contents(tmp_path)
    with pytest.raises(TraceError, match=r"another plan.*--out"):
        TraceWriter.open(tmp_path, header(fingerprint="plan-2"))
    with pytest.raises(TraceError, match=r"another version.*--out"):
        TraceWriter.open(tmp_path, header(model="cnn"))
    assert contents(tmp_path) == before


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter 1")
    with pytest.raises(TraceError, match=r"thesis\.txt.*--out"):
        TraceWriter.open(tmp_path, header())
    assert contents(tmp_path) == {"thesis.txt": b"chapter 1"}


def test_a_log_that_is_gone_does_not_cost_the_rounds(tmp_path: Path) -> None:
    record(tmp_path, header())
    (tmp_path / "log").unlink()
    before = contents(tmp_path)
    with pytest.raises(TraceError, match="log is missing"):
        TraceWriter.open(tmp_path, header())
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["snapshots.bin", "update-001.bin", "device.bin"])
def test_a_shortened_file_stops_the_resumed_run(tmp_path: Path, name: str) -> None:
    record(tmp_path, header(), until=3)
    os.truncate(tmp_path / name, (tmp_path / name).stat().st_size - 1)
    with pytest.raises(TraceError, match=rf"{name} is truncated"):
        TraceWriter.open(tmp_path, header())


def test_a_damaged_last_model_stops_the_resumed_run(tmp_path: Path) -> None:
    record(tmp_path, header(), until=3)
    data = bytearray((tmp_path / "snapshots.bin").read_bytes())
    data[-1] ^= 1
    (tmp_path / "snapshots.bin").write_bytes(data)
    with pytest.raises(TraceError, match=r"snapshots\.bin is damaged"):
        TraceWriter.open(tmp_path, header())


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_only_the_owner_may_read(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        record(tmp_path / "run" / "trace", header())
    finally:
        os.umask(before)
    for folder in (tmp_path / "run", tmp_path / "run" / "trace"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (tmp_path / "run" / "trace").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_the_estimate_is_near_what_a_run_takes(tmp_path: Path) -> None:
    head = header(rounds=50)
    record(tmp_path, head)
    taken = sum(len(data) for data in contents(tmp_path).values())
    assert taken <= estimate(head, 50, 3) <= 1.2 * taken


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
    rng = derive(3, "kill")
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
    rng = derive(4, "interrupt")
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
        with pytest.raises(TraceError, match=r"no room for round (\d+).*go on from round \1"):
            record(tmp_path / "limited", head)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    found = everything(tmp_path / "limited")
    assert found[0].startswith(b"(Header(")
    assert 0 < Trace.open(tmp_path / "limited").rounds < 200
    record(tmp_path / "limited", head)
    assert contents(tmp_path / "limited") == contents(tmp_path / "whole")
