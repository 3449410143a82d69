"""Times in tables: one way of writing them per column, since two would put the same day into different years."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from fedleak.errors import DataError
from fedleak.population.datasets.rows import Row, is_missing, short

__all__ = ["read_days", "read_date"]

_DAY = 86400.0
_LATEST = 2**33  # seconds: the year 2242; larger numbers count milliseconds or worse
_WRITTEN = {
    "iso": "dates like 2024-05-31",
    "compact": "dates like 20240531",
    "year": "years like 2024",
    "seconds": "seconds since 1970",
}


def read_days(rows: Sequence[Row], column: str) -> npt.NDArray[np.float64]:
    """Read a column of times in days since 1970; NaN where there is none."""
    days = np.full(len(rows), math.nan)
    found: dict[str, list[Row]] = {}
    wrong: list[tuple[Row, str]] = []
    for i, row in enumerate(rows):
        value = row.optional(column).strip()
        if is_missing(value):
            continue
        date = read_date(value)
        if date is None:
            wrong.append((row, value))
        else:
            days[i] = date[1]
            found.setdefault(date[0], []).append(row)
    if wrong:
        row, value = wrong[0]
        more = f" ({len(wrong)} such values in this column)" if len(wrong) > 1 else ""
        raise row.error(column, f"{short(value)} is {_hint(value)}{more}")
    if len(found) > 1:
        ways = " and ".join(
            f"{_WRITTEN[way]} ({len(some)}, first in {some[0].place})" for way, some in sorted(found.items())
        )
        raise DataError(f"{rows[0].file}, column '{column}': mixes {ways}; write all of them in one way")
    return days


def read_date(value: str) -> tuple[str, float] | None:
    """How a time is written, and days since 1970; None if it is no time.

    >>> read_date("1970-01-02T12:00"), read_date("19700102"), read_date("43200"), read_date("31/05/2024")
    (('iso', 1.5), ('compact', 1.0), ('seconds', 0.5), None)
    >>> read_date("1971")
    ('year', 365.0)
    """
    try:
        if re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])[0-3]\d", value):
            return "compact", _stamp(value) / _DAY
        if re.fullmatch(r"(19|20)\d\d", value):  # half an hour after 1970 is no time that a table holds
            return "year", _stamp(f"{value}-01-01") / _DAY
        if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", value):
            return ("seconds", float(value) / _DAY) if abs(float(value)) < _LATEST else None
        return "iso", _stamp(value) / _DAY
    except (ValueError, OverflowError):
        return None


def _hint(value: str) -> str:
    if re.fullmatch(r"\d{12,}(\.0*)?", value):
        return "too large for seconds since 1970; divide milliseconds by 1000"
    other = "; write 31/05/2024 as 2024-05-31" if re.fullmatch(r"\d+[./-]\d+[./-]\d+.*", value) else ""
    return f"neither a date like 2024-05-31 or 20240531, nor a year, nor seconds since 1970{other}"


def _stamp(value: str) -> float:
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
