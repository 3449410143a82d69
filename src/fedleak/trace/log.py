"""The commit log: a round exists once its complete line is here.

    1f0a33c7 {"round":3,"clients":24,"notes":0,"crc":[...]}

The eight digits are the CRC-32 of what follows them. `clients` and `notes` count from the start of the trace, so
a line determines where every file ends; `crc` holds the checksum (checksum.py) of what the round added to each file.
Round 0 is the initial model. A line without its end is a round that was interrupted and does not count; a damaged line
before that is an error.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.errors import TraceError
from fedleak.trace.files import open_regular
from fedleak.trace.header import TraceTable

__all__ = ["LOG", "Commit", "Log"]

LOG = "log"

# With rows of at most 2**40 bytes a larger count would overflow an offset; no disk holds as many anyway.
_MOST = 1 << 40


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the log."""

    round: int
    clients: int
    notes: int
    crc: list[int]

    def line(self) -> bytes:
        """The line as it is written, with its own checksum in front."""
        body = msgspec.json.encode(self)
        return b"%08x %s\n" % (zlib.crc32(body), body)


@dataclass(frozen=True, slots=True)
class Log:
    """Every committed round in three compact arrays, indexed by round: a long run must not need much more memory."""

    clients: IntArray  # (rounds + 1,) recorded up to the end of each round
    notes: IntArray
    crc: npt.NDArray[np.uint32]  # (rounds + 1, tables)
    bytes: int  # of the complete lines; what follows them was interrupted

    @property
    def rounds(self) -> int:
        """How many rounds are committed; -1 before the initial model is."""
        return len(self.clients) - 1

    def end(self, table: TraceTable, round_number: int) -> int:
        """Where a round's rows end in a table."""
        if round_number < 0:
            return 0
        return table.end(round_number, int(self.clients[round_number]), int(self.notes[round_number]))

    def ends(self, table: TraceTable) -> IntArray:
        """Where every round's rows end in a table."""
        return table.ends(np.arange(self.rounds + 1), self.clients, self.notes)

    @staticmethod
    def read(folder: Path, tables: Sequence[TraceTable]) -> Log:
        """Read the log line by line."""
        path = folder / LOG
        clients, notes, crc = array("q"), array("q"), array("I")
        longest = 128 + 16 * len(tables)
        whole = 0
        with open(open_regular(path), "rb") as file:
            while (line := file.readline(longest)).endswith(b"\n"):
                commit = _parse(line)
                if commit is None or not _follows(commit, clients, notes, len(tables)):
                    raise _damaged(path, len(clients) + 1)
                clients.append(commit.clients)
                notes.append(commit.notes)
                crc.extend(commit.crc)
                whole += len(line)
        if len(line) == longest:
            raise _damaged(path, len(clients) + 1)
        return Log(
            clients=np.array(clients, dtype=np.int64),
            notes=np.array(notes, dtype=np.int64),
            crc=np.array(crc, dtype=np.uint32).reshape(len(clients), len(tables)),
            bytes=whole,
        )


def _parse(line: bytes) -> Commit | None:
    checksum, _, body = line[:-1].partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    try:
        return msgspec.json.decode(body, type=Commit)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _follows(commit: Commit, clients: array[int], notes: array[int], tables: int) -> bool:
    before = (clients[-1], notes[-1]) if clients else (0, 0)
    return (
        commit.round == len(clients)
        and before[0] <= commit.clients < _MOST
        and before[1] <= commit.notes < _MOST
        and len(commit.crc) == tables
        and all(0 <= value < 1 << 32 for value in commit.crc)
    )


def _damaged(path: Path, line: int) -> TraceError:
    return TraceError(
        f"{path}, line {line}, is damaged or was not written by Fedleak; "
        "restore the folder from a copy, or delete it and record the run again"
    )
