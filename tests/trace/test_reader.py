from __future__ import annotations

import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Layer
from fedleak.errors import TraceError
from fedleak.trace.header import FORMAT, VERSION
from fedleak.trace.log import Commit
from fedleak.trace.reader import Trace
from fedleak.trace.sealed import seal
from recorded import everything, header, record


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        record(Path(name) / "trace", header())
        yield Path(name) / "trace"


@pytest.fixture(scope="module")
def expected(whole: Path) -> list[bytes]:
    return everything(whole)


@pytest.fixture
def trace(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(whole, tmp_path / "trace")


def _same_or_refused(folder: Path, expected: list[bytes]) -> bool:
    """Whether damage was found; if not, the data must be what was written."""
    try:
        if not Trace.open(folder).finished:
            return True  # a shortened log looks like an unfinished run, which nothing that attacks will accept
        found = everything(folder)
    except TraceError:
        return True
    assert found == expected
    return False


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_found_or_harmless(whole: Path, expected: list[bytes], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(whole.iterdir())))
    original = path.read_bytes()
    position = data.draw(st.integers(0, len(original) - 1))
    flipped = bytearray(original)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    with tempfile.TemporaryDirectory() as name:
        folder = shutil.copytree(whole, Path(name) / "trace")
        (folder / path.name).write_bytes(flipped)
        found = _same_or_refused(folder, expected)
        assert found or path.suffix == ".json", "a bit of data or log was flipped and nobody noticed"


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_shortened_file_is_found(whole: Path, expected: list[bytes], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(whole.iterdir())))
    size = path.stat().st_size
    with tempfile.TemporaryDirectory() as name:
        folder = shutil.copytree(whole, Path(name) / "trace")
        os.truncate(folder / path.name, data.draw(st.integers(0, size - 1)))
        found = _same_or_refused(folder, expected)
        assert found or path.name == "header.json"  # whose last byte is a line end that nobody needs


@settings(max_examples=25, deadline=None)
@given(data=st.data(), tail=st.binary(min_size=1, max_size=200))
def test_what_follows_the_last_whole_round_does_not_count(
    whole: Path, expected: list[bytes], data: st.DataObject, tail: bytes
) -> None:
    tables = [table.name for table in header().tables()]
    with tempfile.TemporaryDirectory() as name:
        folder = shutil.copytree(whole, Path(name) / "trace")
        with open(folder / data.draw(st.sampled_from(tables)), "ab") as file:
            file.write(tail)
        assert everything(folder) == expected


@settings(max_examples=40, deadline=None)
@given(garbage=st.binary(max_size=300))
def test_garbage_in_the_place_of_any_file_never_passes(whole: Path, expected: list[bytes], garbage: bytes) -> None:
    for name in ("header.json", "log", "update-000.bin"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = shutil.copytree(whole, Path(temporary) / "trace")
            (folder / name).write_bytes(garbage)
            assert _same_or_refused(folder, expected)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("update-000.bin", lambda data: data[:-1], r"update-000\.bin is truncated: \d+ bytes where the log says \d+"),
        ("update-001.bin", lambda data: b"\x01" + data[1:], r"update-001\.bin is damaged in round 1 \(checksum\)"),
        ("client.bin", lambda data: data[:-1] + b"\x77", r"client\.bin is damaged in round 4 \(checksum\)"),
        ("log", lambda data: data.replace(b'"round":2', b'"round":3'), r"log, line 3, is damaged"),
        ("log", lambda data: b"x" * 5000, r"log, line 1, is damaged"),
        ("header.json", lambda data: b"\x89PNG\r\n", r"header\.json is damaged, or Fedleak did not write it"),
        ("header.json", lambda data: data.replace(b"mlp", b"mlq"), r"header\.json is damaged \(checksum\)"),
        ("header.json", lambda data: data.replace(FORMAT.encode(), b"other"), r"'other' file where a 'fedleak-trace'"),
        ("header.json", lambda data: data.replace(b'"version":2', b'"version":1'), r"does not read"),
        (
            "header.json",
            lambda data: data.replace(b'"version":2', b'"version":3'),
            r"format version 3; this Fedleak reads up to 2: install a newer Fedleak",
        ),
    ],
)
def test_every_damage_is_named_with_its_file(
    trace: Path, name: str, damage: Callable[[bytes], bytes], message: str
) -> None:
    path = trace / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceError, match=message):
        everything(trace)


@pytest.mark.parametrize("name", ["header.json", "log", "snapshots.bin", "update-001.bin", "size.bin"])
def test_a_missing_file_is_named(trace: Path, name: str) -> None:
    (trace / name).unlink()
    with pytest.raises(TraceError, match=rf"{name} is missing"):
        everything(trace)


@pytest.mark.parametrize("name", ["header.json", "log", "snapshots.bin"])
def test_a_pipe_in_the_place_of_a_file_does_not_hang_the_reader(trace: Path, name: str) -> None:
    (trace / name).unlink()
    os.mkfifo(trace / name)
    with pytest.raises(TraceError, match="not a regular file"):
        everything(trace)


def _layer(*tensors: Any) -> dict[str, Any]:
    return {"name": "out", "tensors": tensors}


@pytest.mark.parametrize(
    "hostile",
    [
        {"layout": [_layer(("weight", (-1, 5)), ("bias", (10,)))]},
        {"layout": [_layer(("weight", (10**9, 10**9)))]},
        {"layout": [_layer(("weight", (2**62, 4)))]},
        {"layout": [_layer(("weight", (0,)))]},
        {"layout": [_layer(("weight", (1,))), _layer(("weight", (1,)))]},
        {"layout": [_layer(("weight", "x"))]},
        {"layout": []},
        {"shadow": [0]},
        {"shadow": [-2] * 6},
        {"clients": ["a"] * 6},
        {"dtype": "object"},
        {"rounds": -1},
        {"task": "os.system"},
        {"surprise": 1},
    ],
)
def test_a_hostile_header_is_refused(trace: Path, hostile: dict[str, Any]) -> None:
    content = {**msgspec.to_builtins(header()), **hostile}
    seal(trace / "header.json", FORMAT, VERSION, content)
    with pytest.raises(TraceError, match=r"header\.json"):
        Trace.open(trace)


def test_counts_that_no_disk_holds_are_refused_without_being_allocated(trace: Path) -> None:
    tables = len(header().tables())
    first = Commit(round=0, clients=0, notes=0, crc=[0] * tables).line()
    second = Commit(round=1, clients=(1 << 40) - 1, notes=0, crc=[0] * tables).line()
    (trace / "log").write_bytes(first + second)
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match="is truncated"):
            Trace.open(trace).updates("hidden")
        with pytest.raises(TraceError, match="is truncated"):
            next(Trace.open(trace).blocks("hidden"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    for counts in (
        {"clients": 1 << 40, "notes": 0},
        {"clients": -1, "notes": 0},
        {"clients": 0, "notes": -1},
    ):
        (trace / "log").write_bytes(first + Commit(round=1, crc=[0] * tables, **counts).line())
        with pytest.raises(TraceError, match=r"log, line 2"):
            Trace.open(trace)


def test_a_large_model_in_the_header_alone_allocates_nothing(trace: Path) -> None:
    content = {**msgspec.to_builtins(header()), "layout": [_layer(("weight", (2**37,)))]}
    seal(trace / "header.json", FORMAT, VERSION, content)
    (trace / "log").write_bytes(Commit(round=0, clients=0, notes=0, crc=[0] * 7).line())
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"snapshots\.bin is truncated"):
            Trace.open(trace).snapshot(0)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_what_is_read_cannot_be_written_to(trace: Path) -> None:
    opened = Trace.open(trace)
    for values in (opened.updates("hidden"), opened.client, opened.shadow, opened.size):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0


def test_rounds_and_layers_that_are_not_there_are_refused(trace: Path) -> None:
    opened = Trace.open(trace)
    for number in (-1, 5):
        with pytest.raises(IndexError, match=f"round {number}"):
            opened.snapshot(number)
    with pytest.raises(IndexError, match="round 0"):
        opened.aggregate(0)
    with pytest.raises(KeyError, match="hidden"):
        opened.updates("hiden")


def test_a_run_that_has_not_started_has_no_trace_yet(tmp_path: Path) -> None:
    from fedleak.trace.writer import TraceWriter

    TraceWriter.open(tmp_path, header())
    with pytest.raises(TraceError, match="no finished round; run `fedleak train`"):
        Trace.open(tmp_path)


def _peak(work: Callable[[], object]) -> int:
    work()  # imports and caches are not the trace's memory
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _read_all(folder: Path) -> None:
    trace = Trace.open(folder)
    trace.verify()
    for layer in trace.header.layout:
        for block in trace.blocks(layer.name):
            assert np.isfinite(block[:, 0]).all()
    for number in range(trace.rounds + 1):
        trace.snapshot(number)


def test_reading_a_thousand_rounds_takes_the_memory_of_ten(tmp_path: Path) -> None:
    wide = (Layer("wide", (("weight", (300,)),)),)
    for rounds in (10, 1000):
        record(tmp_path / str(rounds), header(rounds=rounds, count=20, layout=wide), per_round=20)
    data = sum(path.stat().st_size for path in (tmp_path / "1000").iterdir())
    few, many = (_peak(lambda n=rounds: _read_all(tmp_path / str(n))) for rounds in (10, 1000))  # type: ignore[misc]
    assert data > 25_000_000
    # Two blocks of 2 MiB, which ten rounds do not fill, and a line of the log in three arrays; nothing else.
    assert many - few < (4 << 20) + 200 * 1000


def test_writing_a_thousand_rounds_takes_the_memory_of_ten(tmp_path: Path) -> None:
    def write(rounds: int) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as name:
            record(Path(name), header(rounds=rounds), per_round=3)

    few, many = (_peak(lambda n=rounds: write(n)) for rounds in (10, 1000))  # type: ignore[misc]
    assert many - few < 50_000


def test_ten_thousand_clients_cost_their_pseudonyms_and_no_more(tmp_path: Path) -> None:
    for count in (10, 10_000):
        record(tmp_path / str(count), header(rounds=10, count=count), per_round=5)
    few, many = (_peak(lambda n=count: _read_all(tmp_path / str(n))) for count in (10, 10_000))  # type: ignore[misc]
    assert many - few < 10_000 * 400
