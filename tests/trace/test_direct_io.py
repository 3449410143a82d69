"""Writing past the page cache: the same bytes as in the ordinary way, whatever happens on the way."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Layer
from fedleak.errors import TraceError
from fedleak.trace import direct_io, update_rows
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter
from recorded import a_round, contents, header, params

SIZES = (20_000, 3, 4096, 11_111)  # values of the layers


@pytest.fixture(autouse=True, scope="module")
def small_buffer() -> Iterator[None]:
    """A buffer of 16 pages, so that small layers reach every case."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (direct_io, update_rows):
            patch.setattr(module, "STAGE", 16 * direct_io.PAGE)
            patch.setattr(module, "LONG", 2 * direct_io.PAGE)
        yield


def head(sizes: tuple[int, ...] = SIZES, **changes: Any) -> Header:
    layout = tuple(Layer(f"layer{n}", (("weight", (size,)),)) for n, size in enumerate(sizes))
    return header(layout=layout, rounds=None, **changes)


def append(writer: TraceWriter, number: int, piece: int = 5_000, lend: bool = True, *, by_layer: bool = True) -> None:
    """A round whose updates come in pieces, layer by layer as a recorder brings them, or client by client."""
    done = a_round(writer.header, number)
    rows, clients = writer.rows(), len(done.clients)
    layers = list(enumerate(writer._layers))
    order = [(row, one) for row in range(clients) for one in layers]
    for row, (layer, (name, size)) in sorted(order, key=lambda one: one[1][0]) if by_layer else order:
        for start in range(0, size, piece):
            values = done.updates[name][row, start : start + piece]
            space = rows.space(layer, len(values)) if lend else None
            if space is not None:
                space[:] = values
            rows.write(layer, values if space is None else space)
        if not by_layer and layer == len(layers) - 1:
            rows.end()
    if by_layer:
        rows.end(clients)
    writer.append(done, (), rows)


def begin(folder: Path, first: Header, *, ordinary: bool = False) -> TraceWriter:
    writer = TraceWriter.open(folder, first)
    writer.staging.refused |= ordinary
    if writer.weights is None:
        writer.start(params(first.layout, (), "weights", 0))
    return writer


def ordinary(folder: Path, first: Header, rounds: int) -> dict[str, bytes]:
    writer = begin(folder, first, ordinary=True)
    for number in range(1, rounds + 1):
        writer.append(a_round(first, number))
    return contents(folder)


def needs_direct(writer: TraceWriter) -> None:
    if writer.staging.refused:
        pytest.skip("this file system or platform has no direct writing")


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60_000) | st.sampled_from((1024, 16_384, 32_768)), min_size=1, max_size=4),
    dtype=st.sampled_from(("float32", "float16")),
    piece=st.integers(1_000, 70_000),
    again=st.booleans(),
    lend=st.booleans(),
    by_layer=st.booleans(),
)
def test_the_bytes_are_those_of_ordinary_writes(
    sizes: list[int], dtype: str, piece: int, again: bool, lend: bool, by_layer: bool
) -> None:
    first = head(tuple(sizes), dtype=dtype)
    with tempfile.TemporaryDirectory() as name:
        expected = ordinary(Path(name) / "ordinary", first, 3)
        folder = Path(name) / "direct"
        writer = begin(folder, first)
        for number in range(1, 4):
            append(writer, number, piece, lend, by_layer=by_layer)
            Trace.open(folder).verify()  # brings all pages into the cache, which the next round must not leave stale
            writer = begin(folder, first) if again else writer
        assert contents(folder) == expected
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_reader_that_has_the_file_mapped_sees_what_is_written(tmp_path: Path) -> None:
    writer = begin(tmp_path, head((100_000,)))
    append(writer, 1)
    needs_direct(writer)
    path = tmp_path / "update-000.bin"
    os.ftruncate(writer._files[path.name], 6 * 400_000)  # as an interrupted round may leave it
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as seen:
        assert not any(seen[3 * 400_000 :])
        append(writer, 2)
        assert seen[3 * 400_000 :] == a_round(writer.header, 2).updates["layer0"].tobytes()
    assert not writer.staging.refused


@pytest.mark.parametrize("left", [0, 1, 4095, 4096, 100_001])
def test_what_an_interrupted_round_left_is_overwritten(tmp_path: Path, left: int) -> None:
    expected = ordinary(tmp_path / "ordinary", head(), 3)
    folder = tmp_path / "direct"
    append(begin(folder, head()), 1)
    for path in folder.glob("*.bin"):
        with open(path, "ab") as file:
            file.write(b"\xff" * left)
    writer = begin(folder, head())
    append(writer, 2)
    append(writer, 3)
    assert contents(folder) == expected


class Killed(BaseException):
    """The process is no more."""


def patched(monkeypatch: pytest.MonkeyPatch, instead: Callable[[int, memoryview, int], int]) -> None:
    monkeypatch.setattr(os, "pwrite", instead)


@pytest.mark.parametrize("calls", range(0, 33, 3))
def test_a_process_killed_in_any_write_leaves_the_finished_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    expected = ordinary(tmp_path / "ordinary", head(), 3)
    folder = tmp_path / "direct"
    writer = begin(folder, head())
    append(writer, 1)
    real, left = os.pwrite, calls

    def until(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            real(descriptor, data[: len(data) // 2 // direct_io.PAGE * direct_io.PAGE], offset)
            raise Killed
        return real(descriptor, data, offset)

    with monkeypatch.context() as patch:
        patched(patch, until)
        patch.setattr(writer, "_roll_back", lambda: None)
        with pytest.raises(Killed):
            append(writer, 2)
    trace = Trace.open(folder)
    trace.verify()
    assert trace.rounds == 1
    writer = begin(folder, head())
    append(writer, 2)
    append(writer, 3)
    assert contents(folder) == expected


@pytest.mark.parametrize("room", [0, 30_000, 100_000, 200_000])
def test_a_disk_that_is_full_is_rolled_back_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    expected = ordinary(tmp_path / "ordinary", head(), 2)
    folder = tmp_path / "direct"
    writer = begin(folder, head())
    append(writer, 1)
    before = contents(folder)
    real, left = os.pwrite, room

    def until(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal left
        part = data[: left if left >= len(data) else left // direct_io.PAGE * direct_io.PAGE]
        left -= len(part)
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, part, offset)

    with monkeypatch.context() as patch:
        patched(patch, until)
        with pytest.raises(TraceError, match="no room for round 2"):
            append(writer, 2)
    assert contents(folder) == before
    append(writer, 2)
    assert contents(folder) == expected


@pytest.mark.parametrize("how", ["write", "open", "moved", "platform"])
def test_where_direct_writing_is_refused_the_ordinary_way_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    expected = ordinary(tmp_path / "ordinary", head(), 2)
    folder = tmp_path / "direct"
    if how == "platform":
        monkeypatch.setattr(direct_io, "_DIRECT", 0)
    writer = begin(folder, head())
    append(writer, 1)
    if how == "write":
        aligned = os.pwrite

        def refuse(descriptor: int, data: memoryview, offset: int) -> int:
            if len(data) >= direct_io.PAGE and not writer.staging.refused:
                raise OSError(errno.EINVAL, "Invalid argument")
            return aligned(descriptor, data, offset)

        patched(monkeypatch, refuse)
    elif how == "open":
        monkeypatch.setattr(direct_io, "_DIRECT", os.O_DIRECTORY)
    elif how == "moved":
        folder.rename(tmp_path / "elsewhere")
        shutil.copytree(tmp_path / "elsewhere", folder)
    copied = contents(folder)
    append(writer, 2)
    assert writer.staging.refused
    if how == "moved":  # what is not ours stays as it is
        assert contents(folder) == copied
        folder = tmp_path / "elsewhere"
    assert contents(folder) == expected


def test_only_a_recorded_run_is_written_directly(tmp_path: Path) -> None:
    """What Fedleak trains it reads at once; those pages are better kept."""
    assert TraceWriter.open(tmp_path / "trained", header()).staging.refused
    assert TraceWriter.open(tmp_path / "recorded", head()).staging.buffer.ctypes.data % direct_io.PAGE == 0


def test_layers_that_follow_each_other_in_memory_need_not_be_joined() -> None:
    whole = np.arange(10, dtype=np.float32)
    assert update_rows.joined_in_memory([whole[:3], whole[3:4], whole[4:]]) is whole
    for parts in (
        [whole[:3], whole[3:9]],
        [whole[3:], whole[:3]],
        [whole[:3], whole[3:].copy()],
        [whole[:3], whole[2:]],
        [whole[:6:2], whole[6:]],
        [whole],
    ):
        assert update_rows.joined_in_memory(parts) is None
