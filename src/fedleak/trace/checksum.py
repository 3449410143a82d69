"""The checksum of what a round adds to a file: CRC-32 over data that is folded first.

zlib's CRC-32 alone reads at a fifth of the speed of the page cache (benchmarks/trace.py), so it would decide how fast
a trace is read. Each 64 KiB are therefore folded into 2 KiB, by the exclusive or of their 32 segments, and the CRC-32
is taken of the folded bytes and of the unfolded rest. Damage within 2 KiB reaches the CRC bit by bit, so that any one
flipped bit and any burst of up to 32 bits is found with certainty, and anything else but for one chance in four
billion, unless the same bits of two segments of one piece are flipped together.

>>> checksum(np.frombuffer(b"123456789", np.uint8)) == zlib.crc32(b"123456789")
True
"""

from __future__ import annotations

import zlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bytes", "Checksum", "checksum"]

Bytes: TypeAlias = npt.NDArray[np.uint8]

_SEGMENT = 2048
_PIECE = 32 * _SEGMENT


class Checksum:
    """A checksum that is fed in parts of any length."""

    __slots__ = ("_crc", "_rest")

    def __init__(self) -> None:
        self._crc = 0
        self._rest = bytearray()  # of the piece that is not yet whole

    def update(self, data: Bytes) -> None:
        """Take the next bytes."""
        if self._rest:
            missing = _PIECE - len(self._rest)
            self._rest += data[:missing].data
            data = data[missing:]
            if len(self._rest) < _PIECE:
                return
            self._fold(np.frombuffer(self._rest, np.uint8))
            self._rest = bytearray()
        whole = len(data) // _PIECE * _PIECE
        if whole:
            self._fold(data[:whole])
        self._rest += data[whole:].data

    def _fold(self, pieces: Bytes) -> None:
        folded = np.bitwise_xor.reduce(pieces.reshape(-1, 32, _SEGMENT), axis=1)
        self._crc = zlib.crc32(folded.data, self._crc)

    def value(self) -> int:
        """The checksum of everything so far."""
        return zlib.crc32(self._rest, self._crc)


def checksum(data: Bytes) -> int:
    """The checksum of one array of bytes."""
    result = Checksum()
    result.update(data)
    return result.value()
