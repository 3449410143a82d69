"""Updates of a round that are written one client at a time, and what all writing of a trace has in common."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedleak.core import Params
from fedleak.errors import TraceError
from fedleak.trace.checksum import Bytes, Checksum

if TYPE_CHECKING:
    from fedleak.trace.writer import TraceWriter

__all__ = ["UpdateRows", "write_at", "raw_bytes", "cannot_write"]

# Bytes per write: given several MiB at once, the kernel allocates larger pieces and takes eight times as long.
_AT_ONCE = 1 << 20
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class UpdateRows:
    """The updates of a round that is not complete yet, written as they come.

    A recorder beside somebody else's server must neither hold all clients' updates in memory nor read each of them
    more than once. Until the round is appended no line of the log covers them, so they do not count.
    """

    def __init__(self, writer: TraceWriter) -> None:
        self.count = 0
        self._writer = writer
        self._tables = [table for table in writer._tables if table.observation == "updates"]
        self._sums = [Checksum() for _ in self._tables]

    def add(self, update: Params) -> None:
        """Write one client's update."""
        writer, number = self._writer, self._writer._at.round + 1
        try:
            for (name, _), table, so_far in zip(writer._layers, self._tables, self._sums, strict=True):
                row = raw_bytes(writer._stored(update[name], number, name))
                if len(row) != table.row:
                    raise ValueError(f"an update of layer '{name}' has {len(row)} bytes, not {table.row}")
                so_far.update(row)
                place = writer._end(table) + self.count * table.row
                if table.name in writer._holes:
                    os.ftruncate(writer._files[table.name], place + table.row)
                else:
                    write_at(writer._files[table.name], place, row)
        except OSError as error:
            writer._roll_back()
            raise cannot_write(writer.folder, number, sum(table.row for table in self._tables), error) from error
        self.count += 1

    def checksums(self) -> list[int]:
        """The checksum of what the round adds to the file of each layer."""
        return [so_far.finish(np.empty(0, np.uint8)) for so_far in self._sums]


def write_at(descriptor: int, offset: int, chunk: Bytes) -> None:
    """Write at an offset rather than at the end: what an interrupted attempt left there is overwritten, not kept."""
    done = 0
    while done < len(chunk):
        done += os.pwrite(descriptor, chunk[done : done + _AT_ONCE].data, offset + done)


def raw_bytes(values: npt.NDArray[Any]) -> Bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def cannot_write(folder: Path, number: int, needed: int, error: OSError) -> TraceError:
    """The error for a round that could not be written."""
    kept = f"The rounds before it are kept: free some space and rerun the same command to resume from round {number}."
    if error.errno not in _FULL:
        return TraceError(f"round {number} cannot be written to {folder}: {error.strerror}. {kept}")
    space = os.statvfs(folder)
    return TraceError(
        f"no room for round {number} in {folder}: it needs {needed:,} bytes, "
        f"{space.f_bavail * space.f_frsize:,} are free ({error.strerror}). {kept}"
    )
