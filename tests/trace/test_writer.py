from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from fedleak.errors import TraceError
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter
from recorded import LAYOUT, a_round, contents, header, params, record


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
    senders = np.concatenate([a_round(head, number).clients for number in range(1, 5)])
    np.testing.assert_array_equal(trace.client, senders)
    np.testing.assert_array_equal(trace.shadow, np.array(head.shadow)[senders])
    np.testing.assert_array_equal(trace.size, np.concatenate([a_round(head, number).sizes for number in range(1, 5)]))
    np.testing.assert_array_equal(trace.round, np.repeat([1, 2, 3, 4], 3))
    assert [(note.round, note.client) for note in trace.dropped()] == [(1, "d-0"), (3, "d-0")]


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
    assert len(trace.client) == 12
    with pytest.raises(TraceError, match="only sums"):
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
    with pytest.raises(ValueError, match="client"):
        writer.append(dataclasses.replace(a_round(head, 2), clients=np.array([0, 1, 6])))
    with pytest.raises(ValueError, match="shape"):
        writer.append(dataclasses.replace(a_round(head, 2), clients=np.array([0, 1])))
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


@pytest.mark.parametrize("name", ["snapshots.bin", "update-001.bin", "client.bin"])
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
