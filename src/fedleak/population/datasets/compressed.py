"""Open files as they are or compressed, by their name."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

__all__ = ["SUFFIXES", "UNREADABLE", "open_bytes"]

_OPENERS: Mapping[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open}
SUFFIXES = tuple(_OPENERS)
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a damaged file raises


def open_bytes(file: Path) -> IO[bytes]:
    """Open a file for reading; one that ends in .gz or .xz is decompressed."""
    opener = _OPENERS.get(file.suffix.lower())
    opened: IO[bytes] = file.open("rb") if opener is None else opener(file)
    return opened
