"""Read a trace: one layer of all updates, one snapshot, one column, without loading the rest.

Nothing that is read is trusted before its checksum is verified. Memory does not grow with the number of rounds
beyond a few bytes per round and layer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, Params
from fedleak.errors import NotVisible, TraceError
from fedleak.trace.checksum import Bytes, Checksum, checksum
from fedleak.trace.closed import Closed
from fedleak.trace.files import open_regular
from fedleak.trace.header import Header, TraceTable
from fedleak.trace.log import Log

__all__ = ["Trace", "Dropped", "Joined"]

# Small enough to stay in the CPU cache between reading and verifying, large enough to hide the cost of the calls.
_BLOCK = 1 << 21


class Dropped(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="note", tag="dropped"):
    """A client whose update was dropped from a round, and why."""

    round: int
    client: str
    why: str


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="note", tag="joined"):
    """A client that appeared after the header was written; its index follows those of all clients before it."""

    round: int
    client: str


class Trace:
    """A recorded run.

    `only` limits which files may be opened at all, by what they show (`TraceTable.observation`); a view passes what its
    adversary sees, so that the rest cannot even be read.
    """

    def __init__(self, folder: Path, header: Header, log: Log, only: Collection[str] | None) -> None:
        self.folder = folder
        self.header = header
        self._log = log
        self._only = only
        self._tables = header.tables()
        self._verified: set[str] = set()

    @staticmethod
    def open(folder: Path, only: Collection[str] | None = None) -> Trace:
        """Read the header and the log; data files are opened when they are asked for."""
        header = Header.load(folder)
        log = Log.read(folder, header.tables())
        if log.rounds < 0:
            way = "run `fedleak train` on its plan" if header.rounds is not None else "its server was stopped too early"
            raise TraceError(f"{folder} holds no finished round; {way}")
        if header.rounds is None and (only is None or "client" in only) and log.notes[-1]:
            header = _with_late_clients(Trace(folder, header, log, None))
        if only is None:
            return Trace(folder, header, log, only)
        # The checksum of a hidden column of few small numbers is as good as the column: it can be found by brute force.
        # So is the list of clients, once the numbers are known.
        hidden = [table.observation not in only for table in header.tables()]
        log = replace(log, crc=np.where(hidden, np.uint32(0), log.crc))
        if "client" not in only:
            header = msgspec.structs.replace(header, clients=(), shadow=())
        return Trace(folder, header, log, only)

    @property
    def rounds(self) -> int:
        """How many complete rounds are on disk."""
        return self._log.rounds

    @property
    def finished(self) -> bool:
        """Whether every round of the plan is there; of a recorded run: whether its recorder has closed it."""
        if self.header.rounds is None:
            return Closed.load(self.folder) is not None
        return self.rounds == self.header.rounds

    @property
    def round(self) -> IntArray:
        """The round of every recorded update, in recorded order."""
        return np.repeat(np.arange(self.rounds + 1), np.diff(self._log.clients, prepend=0))

    def span(self, round_number: int) -> slice:
        """Which rows of the columns and the updates belong to a round."""
        self._require_round(round_number, first=1)
        return slice(int(self._log.clients[round_number - 1]), int(self._log.clients[round_number]))

    @property
    def client(self) -> npt.NDArray[np.int32]:
        """The index of the client that sent each update, mapped read-only from disk."""
        return self._map(self._table("client"), np.dtype("<i4"), ())

    @property
    def shadow(self) -> npt.NDArray[np.int32]:
        """The candidate whose data each update was trained on, if a shadow client sent it; else -1."""
        return self._map(self._table("shadow"), np.dtype("<i4"), ())

    @property
    def size(self) -> npt.NDArray[np.int32]:
        """How many examples each update was trained on."""
        return self._map(self._table("size"), np.dtype("<i4"), ())

    def updates(self, layer: str) -> npt.NDArray[Any]:
        """One layer of every update, (updates, size), mapped read-only from disk as it is stored."""
        table, size = self._layer(layer)
        return self._map(table, np.dtype("<f4" if self.header.dtype == "float32" else "<f2"), (size,))

    def blocks(self, layer: str, rows: int | None = None) -> Iterator[FloatArray]:
        """One layer of every update as float32, some rows at a time.

        Checksums are verified round by round while streaming, so a block may be yielded before the end of its round is
        read; the iteration never ends normally on a damaged file.
        """
        table, size = self._layer(layer)
        step = table.row * (rows or max(1, _BLOCK // table.row))
        dtype = "<f4" if self.header.dtype == "float32" else "<f2"
        for block in self._stream(table, step):
            yield block.view(dtype).reshape(-1, size).astype(np.float32, copy=False)

    def snapshot(self, round_number: int) -> Params:
        """The global model after a round; round 0 is the initial one."""
        self._require_round(round_number, first=0)
        return self._model("snapshots", round_number)

    def aggregate(self, round_number: int) -> Params:
        """What the server added to the model in a round."""
        self._require_round(round_number, first=1)
        return self._model("aggregates", round_number)

    def dropped(self) -> Iterator[Dropped]:
        """Every update that the federation dropped."""
        return (note for note in self.notes() if isinstance(note, Dropped))

    def notes(self) -> Iterator[Dropped | Joined]:
        """Everything that is noted of single clients."""
        table = self._table("notes")
        rest = b""
        for block in self._stream(table, _BLOCK):
            *lines, rest = (rest + block.tobytes()).split(b"\n")
            for line in lines:
                try:
                    yield msgspec.json.decode(line, type=Dropped | Joined)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise TraceError(f"{self.folder / table.name} was not written by Fedleak: {error}") from error

    def verify(self) -> None:
        """Verify every checksum of the trace."""
        for table in self._tables:
            self._verify(table)

    def _require_round(self, round_number: int, first: int) -> None:
        if not first <= round_number <= self.rounds:
            raise IndexError(f"round {round_number} is not between {first} and {self.rounds}")

    def _table(self, observation: str) -> TraceTable:
        return next(table for table in self._tables if table.observation == observation)

    def _layer(self, layer: str) -> tuple[TraceTable, int]:
        if not self.header.holds_updates:
            raise TraceError(f"{self.folder} holds only sums: the channel of this run hides single updates")
        names = [layer.name for layer in self.header.layout]
        if layer not in names:
            raise KeyError(f"no layer '{layer}'; the model has {', '.join(names)}")
        index = names.index(layer)
        return [table for table in self._tables if table.observation == "updates"][index], self.header.layout[
            index
        ].size

    def _open(self, table: TraceTable) -> int:
        if self._only is not None and table.observation not in self._only:
            raise NotVisible(f"this view may not open {table.name}")
        path = self.folder / table.name
        descriptor = open_regular(path)
        size, needed = os.fstat(descriptor).st_size, self._log.end(table, self.rounds)
        if size < needed:
            os.close(descriptor)
            raise TraceError(f"{path} is truncated: {size} bytes where the log says {needed}; {_MEND}")
        return descriptor

    def _stream(self, table: TraceTable, step: int, reuse: bool = False) -> Iterator[Bytes]:
        """Read a file block by block, verifying checksums; with `reuse` a block is overwritten by the next one."""
        index = self._tables.index(table)
        ends = self._log.ends(table)
        current, position, last, partial = 0, 0, int(ends[-1]), Checksum()
        kept = np.empty(min(step, last), np.uint8) if reuse else None
        with open(self._open(table), "rb", buffering=0) as file:
            while position < last:
                length = min(step, last - position)
                block = np.empty(length, np.uint8) if kept is None else kept[:length]
                _fill(file.fileno(), block, position, self.folder / table.name)
                start = 0
                while start < len(block):
                    stop = int(ends[current]) - position
                    if stop > len(block):  # the round goes on in the next block
                        partial.update(block[start:])
                        break
                    found = partial.finish(block[start:stop])
                    self._compare(table, current, found, int(self._log.crc[current, index]))
                    start, current, partial = stop, current + 1, Checksum()
                position += len(block)
                yield block
        self._verified.add(table.name)

    def _verify(self, table: TraceTable) -> None:
        if table.name not in self._verified:
            # Blocks are not kept, and new memory for each would cost more than reading it.
            for _ in self._stream(table, table.row * max(1, _BLOCK // table.row), reuse=True):
                pass

    def _map(self, table: TraceTable, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        self._verify(table)
        rows = int(self._log.clients[-1])
        if rows == 0:
            empty = np.empty((0, *shape), dtype)
            empty.flags.writeable = False
            return empty
        return np.memmap(self.folder / table.name, dtype=dtype, mode="r", shape=(rows, *shape))

    def _model(self, observation: str, round_number: int) -> Params:
        table = self._table(observation)
        with open(self._open(table), "rb", buffering=0) as file:
            row = np.empty(table.row, np.uint8)
            _fill(file.fileno(), row, self._log.end(table, round_number) - table.row, self.folder / table.name)
        self._compare(table, round_number, checksum(row), int(self._log.crc[round_number, self._tables.index(table)]))
        return self.header.split(row.view("<f4"))

    def _compare(self, table: TraceTable, round_number: int, found: int, expected: int) -> None:
        if found != expected:
            raise TraceError(f"{self.folder / table.name} is damaged in round {round_number} (checksum); {_MEND}")


def _with_late_clients(trace: Trace) -> Header:
    """The header with the clients that appeared after it was written."""
    header = trace.header
    late = [note.client for note in trace.notes() if isinstance(note, Joined)]
    if not late:
        return header
    try:
        return msgspec.structs.replace(
            header, clients=(*header.clients, *late), shadow=(*header.shadow, *([-1] * len(late)))
        )
    except ValueError as error:
        raise TraceError(f"{trace.folder}: {error}; {_MEND}") from error


_MEND = "restore it from a copy, or delete the folder and record the run again"


def _fill(descriptor: int, block: Bytes, offset: int, path: Path) -> None:
    done = 0
    while done < len(block):
        got = os.preadv(descriptor, [block.data[done:]], offset + done)
        if got == 0:
            raise TraceError(f"{path} became shorter while being read; is another process writing to it?")
        done += got
