"""Long runs of bytes go to the disk past the page cache, where the file system allows it.

A recorder writes what it never reads again. In the page cache of a virtual machine half a gigabyte of it costs up to a
second of CPU time in pages that the host has to find; written directly it costs a twentieth.

Pages that are not written whole, at both ends of a round, are written in the ordinary way. The kernel writes back and
drops its own copy of a page before it is written directly, so the two may follow each other in any order.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import numpy as np

from fedleak.trace.checksum import Bytes

__all__ = ["STAGE", "PAGE", "LONG", "Staging", "write_at"]

# Bytes per write: given several MiB at once, the kernel allocates larger pieces and takes eight times as long.
_AT_ONCE = 1 << 20
PAGE = max(4096, mmap.PAGESIZE)
STAGE = 1 << 22  # bytes of the buffer, a multiple of those of a block
LONG = 1 << 17  # bytes from which on a row is written directly
_REFUSED = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}
_DIRECT = getattr(os, "O_DIRECT", 0)  # macOS has none


class Staging:
    """A buffer at a boundary of pages. The byte for the place p of a file stands at p modulo STAGE."""

    def __init__(self, *, direct: bool) -> None:
        memory = np.empty(STAGE + PAGE, np.uint8)
        skip = -memory.ctypes.data % PAGE
        self.buffer: Bytes = memory[skip : skip + STAGE]
        self.refused = not (direct and _DIRECT)  # by the caller, the platform or the file system

    def write(self, descriptor: int, path: Path, start: int, stop: int) -> None:
        """Write what is staged for the bytes from `start` to `stop` of a file; they must not cross a multiple of STAGE.

        The descriptor is one of the same file, opened in the ordinary way.
        """
        low, high = -(-start // PAGE) * PAGE, stop // PAGE * PAGE
        if self.refused or low >= high:
            write_at(descriptor, start, self._staged(start, stop))
            return
        write_at(descriptor, start, self._staged(start, low))
        done = low + self._directly(descriptor, path, low, high)
        write_at(descriptor, done, self._staged(done, stop))

    def copy(self, descriptor: int, path: Path, offset: int, chunk: Bytes) -> None:
        """Write an array of bytes at an offset."""
        if self.refused or len(chunk) < LONG:
            write_at(descriptor, offset, chunk)
            return
        done = 0
        while done < len(chunk):
            start = offset + done
            part = chunk[done : done + STAGE - start % STAGE]
            self._staged(start, start + len(part))[:] = part
            self.write(descriptor, path, start, start + len(part))
            done += len(part)

    def _staged(self, start: int, stop: int) -> Bytes:
        return self.buffer[start % STAGE :][: stop - start]

    def _directly(self, descriptor: int, path: Path, low: int, high: int) -> int:
        """How many bytes were written: not all on a disk that is full, none where direct writing is refused."""
        try:
            # Not kept open: with a second descriptor for each layer, the training could run out of them.
            direct = os.open(path, os.O_WRONLY | os.O_CLOEXEC | _DIRECT)
        except OSError:
            self.refused = True
            return 0
        try:
            if not os.path.samestat(os.fstat(direct), os.fstat(descriptor)):  # the folder was moved away meanwhile
                self.refused = True
                return 0
            return os.pwrite(direct, self._staged(low, high).data, low)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self.refused = True
            return 0
        finally:
            os.close(direct)


def write_at(descriptor: int, offset: int, chunk: Bytes) -> None:
    """Write at an offset rather than at the end: what an interrupted attempt left there is overwritten, not kept."""
    done = 0
    while done < len(chunk):
        # To the next boundary, so that no page is written in two pieces.
        stop = done + _AT_ONCE - (offset + done) % _AT_ONCE
        done += os.pwrite(descriptor, chunk[done:stop].data, offset + done)
