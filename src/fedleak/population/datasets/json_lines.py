"""Files with one JSON object per line, as publishers of large data sets give them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from fedleak.errors import DataError
from fedleak.population.datasets.compressed import UNREADABLE, open_bytes

__all__ = ["lines", "days"]

_Line = TypeVar("_Line")


def lines(file: Path, kind: type[_Line]) -> Iterator[_Line]:
    """Read one JSON object per line, as it is or compressed, keeping only what `kind` has a field for."""
    decoder = msgspec.json.Decoder(kind)
    number = 0
    try:
        with open_bytes(file) as raw:
            for line in raw:
                number += 1
                if line.strip():
                    yield decoder.decode(line)
    except UNREADABLE as error:
        raise DataError(f"{file}: damaged after line {number} ({error}); download it again") from error
    # Too deep a nesting is rejected by the decoder with a RecursionError.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{file}, line {number}: not what this file should hold ({error})") from error


def days(date: str) -> float:
    """Days since 1970 of "2016-03-09 20:56:38" or "2016-03-09"; NaN for what is not a date.

    >>> days("1970-01-02 12:00:00"), days("unknown")
    (1.5, nan)
    """
    try:
        return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp() / 86400
    except (ValueError, OverflowError):
        return float("nan")
