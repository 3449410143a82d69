"""JSON files with a kind, a version and a checksum.

    {"kind": "fedleak-trace", "version": 1, "crc32": 907060870, "content": {...}}

The checksum covers the bytes of `content` as written, so people and other tools can read the file, and a single flipped
bit is still detected.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedleak.errors import TraceError
from fedleak.trace.files import read_whole, write_atomic

__all__ = ["seal", "unseal"]

T = TypeVar("T")


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str
    version: int
    crc32: int
    content: msgspec.Raw


def seal(path: Path, kind: str, version: int, content: Any) -> None:
    """Write content under its kind and version, atomically."""
    raw = msgspec.json.encode(content)
    envelope = _Envelope(kind=kind, version=version, crc32=zlib.crc32(raw), content=msgspec.Raw(raw))
    write_atomic(path, msgspec.json.encode(envelope) + b"\n")


def unseal(path: Path, kind: str, version: int, content: type[T]) -> T:
    """Read content back, or say whether the file is foreign, too new, or damaged."""
    data = read_whole(path)
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(
            f"{path} is damaged, or Fedleak did not write it ({error}); restore it from a copy, or record the run again"
        ) from error
    if envelope.kind != kind:
        raise TraceError(f"{path} is a '{envelope.kind}' file where a '{kind}' file was expected; check the folder")
    if envelope.version > version:
        raise TraceError(
            f"{path} has format version {envelope.version}; this Fedleak reads up to {version}: install a newer Fedleak"
        )
    if envelope.version != version:
        raise TraceError(f"{path} has format version {envelope.version}, which this Fedleak does not read ({version})")
    raw = bytes(envelope.content)
    if zlib.crc32(raw) != envelope.crc32:
        raise TraceError(f"{path} is damaged (checksum); restore it from a copy, or record the run again")
    try:
        return msgspec.json.decode(raw, type=content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise TraceError(f"{path} does not hold what a '{kind}' file must: {error}") from error
