"""Updates of a round that are written one client at a time, and what all writing of a trace has in common."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, Params
from fedleak.errors import TraceError
from fedleak.trace.checksum import Bytes, Checksum

if TYPE_CHECKING:
    from fedleak.trace.writer import TraceWriter

__all__ = ["BLOCK", "UpdateRows", "write_at", "raw_bytes", "cannot_write"]

# Bytes per write: given several MiB at once, the kernel allocates larger pieces and takes eight times as long.
_AT_ONCE = 1 << 20
# Values that are taken at a time from an update to the disk: they stay in the processor's cache meanwhile.
BLOCK = 1 << 16
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
        self._starts = [writer._end(table) for table in self._tables]
        self._places = list(self._starts)  # where the next bytes of each layer go
        self._zeros: dict[int, Bytes] = {}

    def room(self, layer: int) -> int:
        """How many values reach to the next boundary of BLOCK values in the layer's file.

        Writes that end at such boundaries take half the time: no page is written in two pieces.
        """
        width = 4 if self._writer.header.dtype == "float32" else 2
        return BLOCK - self._places[layer] // width % BLOCK

    def write(self, layer: int, values: FloatArray) -> None:
        """Write the next values of a layer's row."""
        table, writer = self._tables[layer], self._writer
        if table.name in writer._holes:
            return
        number = writer._at.round + 1
        chunk = raw_bytes(writer._stored(values, number, writer._layers[layer][0]))
        self._sums[layer].update(chunk)
        try:
            write_at(writer._files[table.name], self._places[layer], chunk)
        except OSError as error:
            writer._roll_back()
            raise cannot_write(writer.folder, number, sum(table.row for table in self._tables), error) from error
        self._places[layer] += len(chunk)

    def end(self) -> None:
        """End the row; every layer must be complete."""
        for layer, table in enumerate(self._tables):
            complete = self._starts[layer] + (self.count + 1) * table.row
            if table.name in self._writer._holes:  # zeros take no space
                self._sums[layer].update(self._zeros.setdefault(layer, np.zeros(table.row, np.uint8)))
                os.ftruncate(self._writer._files[table.name], complete)
                self._places[layer] = complete
            if self._places[layer] != complete:
                raise ValueError(f"an update of layer '{self._writer._layers[layer][0]}' is not {table.row} bytes long")
        self.count += 1

    def restart(self) -> None:
        """Forget everything that was written."""
        self.count = 0
        self._sums = [Checksum() for _ in self._tables]
        self._places = list(self._starts)

    def add(self, update: Params) -> None:
        """Write one client's update at once."""
        for layer, (name, _) in enumerate(self._writer._layers):
            self.write(layer, np.asarray(update[name]))
        self.end()

    def checksums(self) -> list[int]:
        """The checksum of what the round adds to the file of each layer."""
        return [so_far.finish(np.empty(0, np.uint8)) for so_far in self._sums]


def write_at(descriptor: int, offset: int, chunk: Bytes) -> None:
    """Write at an offset rather than at the end: what an interrupted attempt left there is overwritten, not kept."""
    done = 0
    while done < len(chunk):
        # To the next boundary, so that no page is written in two pieces.
        stop = done + _AT_ONCE - (offset + done) % _AT_ONCE
        done += os.pwrite(descriptor, chunk[done:stop].data, offset + done)


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
