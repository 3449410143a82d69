"""Updates of a round that are written one client at a time, and what all writing of a trace has in common."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, Params
from fedleak.errors import TraceError
from fedleak.trace.checksum import Bytes, Checksum
from fedleak.trace.direct_io import LONG, PAGE, STAGE, write_at

if TYPE_CHECKING:
    from fedleak.trace.writer import TraceWriter

__all__ = ["BLOCK", "UpdateRows", "raw_bytes", "joined_in_memory", "cannot_write"]

# Values that are taken at a time from an update to the disk: they stay in the processor's cache meanwhile.
BLOCK = 1 << 16
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class UpdateRows:
    """The updates of a round that is not complete yet, written as they come: by client, or by layer and then by client.

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
        self._staging = writer.staging
        self._current = -1  # the layer that is in the buffer
        self._lent: FloatArray | None = None
        # Of layers that are written directly: how far they are on disk, and what is not, of those not in the buffer.
        self._long = [table.row >= LONG and table.name not in writer._holes for table in self._tables]
        self._written = list(self._starts)
        self._rest: dict[int, Bytes] = {}

    def room(self, layer: int) -> int:
        """How many values reach to the next boundary of BLOCK values in the layer's file.

        Writes that end at such boundaries take half the time: no page is written in two pieces.
        """
        width = 4 if self._writer.header.dtype == "float32" else 2
        return BLOCK - self._places[layer] // width % BLOCK

    def space(self, layer: int, count: int) -> FloatArray | None:
        """Where to put the next values of a row that `write` is then given, so that nobody has to copy them."""
        self._lent = None
        at, width = self._places[layer] % STAGE, 4 * count
        if self._long[layer] and at + width <= STAGE and self._writer.header.dtype == "float32":
            try:
                self._stage(layer)
            except OSError as error:
                raise self._failed(error) from error
            self._lent = self._staging.buffer[at : at + width].view("<f4")
        return self._lent

    def write(self, layer: int, values: FloatArray) -> None:
        """Write the next values of a layer's row."""
        table, writer = self._tables[layer], self._writer
        if table.name in writer._holes:
            return
        staged = values is self._lent
        chunk = raw_bytes(writer._stored(values, writer._at.round + 1, writer._layers[layer][0]))
        self._sums[layer].update(chunk)
        try:
            if not self._long[layer]:
                write_at(writer._files[table.name], self._places[layer], chunk)
                self._places[layer] += len(chunk)
                return
            self._stage(layer)
            done = 0
            while done < len(chunk):
                at = self._places[layer] % STAGE
                part = chunk[done : done + STAGE - at]
                if not staged:
                    self._staging.buffer[at : at + len(part)] = part
                self._places[layer] += len(part)
                done += len(part)
                if at + len(part) == STAGE:
                    self._put(layer, self._places[layer])
        except OSError as error:
            raise self._failed(error) from error

    def _stage(self, layer: int) -> None:
        """Have what is not yet on disk of a layer in the buffer, and nothing of another."""
        if layer == self._current:
            return
        self._unstage()
        self._current = layer
        if (rest := self._rest.pop(layer, None)) is not None:
            at = self._written[layer] % STAGE
            self._staging.buffer[at : at + len(rest)] = rest

    def _unstage(self) -> None:
        """Write the whole pages of the layer in the buffer, and keep what follows for its next row."""
        layer, self._current = self._current, -1
        if layer >= 0:
            place = self._places[layer]
            self._put(layer, place // PAGE * PAGE)
            at = self._written[layer] % STAGE
            self._rest[layer] = self._staging.buffer[at : at + place - self._written[layer]].copy()

    def _put(self, layer: int, stop: int) -> None:
        if stop > self._written[layer]:
            name = self._tables[layer].name
            writer = self._writer
            self._staging.write(writer._files[name], writer.folder / name, self._written[layer], stop)
            self._written[layer] = stop

    def flush(self) -> None:
        """Write what is left, before the round is appended."""
        self._unstage()
        for layer, rest in self._rest.items():
            write_at(self._writer._files[self._tables[layer].name], self._written[layer], rest)
        self._rest = {}

    def _failed(self, error: OSError) -> TraceError:
        writer = self._writer
        writer._roll_back()
        return cannot_write(writer.folder, writer._at.round + 1, sum(table.row for table in self._tables), error)

    def end(self, count: int = 1) -> None:
        """End so many rows; every layer must be complete."""
        for layer, table in enumerate(self._tables):
            complete = self._starts[layer] + (self.count + count) * table.row
            if table.name in self._writer._holes:  # zeros take no space
                for _ in range(count):
                    self._sums[layer].update(self._zeros.setdefault(layer, np.zeros(table.row, np.uint8)))
                os.ftruncate(self._writer._files[table.name], complete)
                self._places[layer] = complete
            if self._places[layer] != complete:
                raise ValueError(f"updates of layer '{self._writer._layers[layer][0]}' are not {table.row} bytes long")
        self.count += count

    def restart(self) -> None:
        """Forget everything that was written."""
        self.count = 0
        self._sums = [Checksum() for _ in self._tables]
        self._places = list(self._starts)
        self._written = list(self._starts)
        self._current, self._lent, self._rest = -1, None, {}

    def add(self, update: Params) -> None:
        """Write one client's update at once."""
        for layer, (name, _) in enumerate(self._writer._layers):
            self.write(layer, np.asarray(update[name]))
        self.end()

    def checksums(self) -> list[int]:
        """The checksum of what the round adds to the file of each layer."""
        return [so_far.finish(np.empty(0, np.uint8)) for so_far in self._sums]


def raw_bytes(values: npt.NDArray[Any]) -> Bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def joined_in_memory(parts: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float32] | None:
    """The vector that these parts are views of, if they make it up from its first value to its last, in this order."""
    whole = parts[0].base
    if not isinstance(whole, np.ndarray) or whole.ndim != 1 or whole.dtype != parts[0].dtype or whole.strides != (4,):
        return None
    place = whole.ctypes.data
    for part in parts:
        if part.base is not whole or part.strides != (4,) or part.ctypes.data != place:
            return None
        place += part.nbytes
    return whole if place == whole.ctypes.data + whole.nbytes else None


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
