"""Columns of numbers: which of them are features, what is missing in them, and what cannot be true."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedleak.core import counted
from fedleak.errors import DataError, did_you_mean
from fedleak.population.datasets.rows import Row, is_missing, short
from fedleak.population.finding import Finding

__all__ = ["Action", "Decimal", "Missing", "choose_columns", "read_numbers", "to_number", "fill", "extremes"]

Action = Literal["stop", "drop", "mean", "indicator"]
Decimal = Literal["point", "comma"]
_TRUTH = {"true": 1.0, "false": 0.0}
_PLACEHOLDERS = frozenset({"none", "-", "--", ".", "missing", "unknown", "nil", "n.a.", "#ref!", "#div/0!", "#value!"})
_FARTHEST = 1e6  # quartile ranges from the median; no measurement is so far out
_LARGEST = float(np.finfo(np.float32).max)
_NAMED = 5  # columns that a text names before it says "and more"


def choose_columns(wanted: str | Sequence[str], rows: Sequence[Row], taken: Iterable[str | None]) -> tuple[str, ...]:
    """Columns by name or with `*` for any characters; a wildcard leaves out columns that have another use."""
    known = list(dict.fromkeys(column for row in rows for column in row.values))
    free = [column for column in known if column not in set(taken)]
    chosen: list[str] = []
    for name in (wanted,) if isinstance(wanted, str) else wanted:
        if name in known:
            chosen.append(name)
            continue
        if "*" not in name:
            raise DataError(f"{rows[0].file}: no column '{name}'{did_you_mean(name, known)}")
        # Brackets and question marks are common in names of columns ("size [cm]"): only the star is a wildcard.
        pattern = re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        matching = [column for column in free if pattern.fullmatch(column)]
        if not matching:
            raise DataError(f"{rows[0].file}: no column for features matches '{name}'{did_you_mean(name, free)}")
        chosen += matching
    return tuple(dict.fromkeys(chosen))


def to_number(value: str, decimal: Decimal = "point") -> float | None:
    """A number as tables write it; None if it is no number.

    >>> [to_number(value) for value in ("1.5", "1e3", "true", "1,5", "1_000")]
    [1.5, 1000.0, 1.0, None, None]
    >>> [to_number(value, "comma") for value in ("1,5", "1.234,5", "12", "1.5")]
    [1.5, 1234.5, 12.0, None]
    """
    if value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    if decimal == "comma":
        if "." in value and not re.fullmatch(r"[+-]?\d{1,3}(\.\d{3})+(,\d*)?", value):
            return None  # 1.5 among numbers with commas: nobody knows what it means
        value = value.replace(".", "").replace(",", ".", 1)
    try:
        return float(value) if "_" not in value else None  # Python reads "1_000" as a number; nobody else does
    except ValueError:
        return None


def read_numbers(rows: Sequence[Row], column: str, decimal: Decimal = "point") -> npt.NDArray[np.float64]:
    """Read a column of numbers; NaN where the value is missing."""
    numbers = np.full(len(rows), math.nan)
    wrong: list[tuple[Row, str, str]] = []
    for i, row in enumerate(rows):
        value = row.optional(column).strip() if column in row.values else ""
        if is_missing(value):
            continue
        written: Decimal = "point" if isinstance(row.values[column], (int, float)) else decimal
        number = to_number(value, written)
        if number is None:
            wrong.append((row, value, f"is not a number{_hint(value, decimal)}"))
            continue
        if not math.isfinite(number):
            wrong.append((row, value, "is not a finite number; fill it in or remove the row"))
        elif abs(number) > _LARGEST:
            wrong.append((row, value, "is too large; a model computes with 32-bit numbers"))
        numbers[i] = number
    if wrong:
        row, value, problem = wrong[0]
        more = f" ({len(wrong)} such values in this column)" if len(wrong) > 1 else ""
        raise row.error(column, f"{short(value)} {problem}{more}")
    return numbers


def _hint(value: str, decimal: Decimal) -> str:
    """How to mend what is no number."""
    if decimal == "point" and to_number(value, "comma") is not None:
        return '; set decimal = "comma" in [dataset], or write a decimal point'
    if decimal == "comma" and to_number(value) is not None:
        return '; decimal = "comma" in [dataset], but this has a decimal point'
    if value.lower() in _PLACEHOLDERS:
        return "; if it stands for an unknown value, leave it empty and set missing in [dataset]"
    return ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Which values are missing, by column; a row is True where there is none."""

    rows: Sequence[Row]
    masks: dict[str, npt.NDArray[np.bool_]]
    texts: bool = False  # the examples are texts, which have no mean

    @property
    def any(self) -> npt.NDArray[np.bool_]:
        """Rows in which anything is missing."""
        found = np.zeros(len(self.rows), dtype=bool)
        for mask in self.masks.values():
            found |= mask
        return found

    def describe(self) -> str:
        """All of them, counted by column, and where the first is."""
        counts = {column: int(mask.sum()) for column, mask in self.masks.items() if mask.any()}
        first = min((int(self.masks[column].argmax()), i, column) for i, column in enumerate(counts))
        named = sorted(counts, key=lambda column: -counts[column])
        listed = ", ".join(f"'{column}' {counts[column]}" for column in named[:_NAMED])
        more = f" and {len(named) - _NAMED} more columns" if len(named) > _NAMED else ""
        return (
            f"{counted(sum(counts.values()), 'missing value')} in {int(self.any.sum())} of "
            f"{counted(len(self.rows), 'row')} ({listed}{more}; first: {self.rows[first[0]].place}, "
            f"column '{first[2]}')"
        )

    def refuse(self, action: Action) -> None:
        """Stop if values are missing and the plan does not say what to do about it."""
        if action == "stop" and self.any.any():
            ways = '"drop"' if self.texts else '"drop", "mean" or "indicator"'
            raise DataError(
                f"{self.rows[0].file}: {self.describe()}; set missing = {ways} in [dataset], or fill them in"
            )


def fill(
    values: npt.NDArray[np.float64], columns: Sequence[str], action: Action, file: object
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Put the mean of a column where its values are missing; with `indicator`, also a column of 0 and 1 for each."""
    absent = np.isnan(values)
    empty = [column for column, mask in zip(columns, absent.T, strict=True) if mask.all()]
    if empty:
        raise DataError(f"{file}: column '{empty[0]}' has no values at all; leave it out of features")
    means = np.nanmean(values, axis=0)
    filled = np.where(absent, means, values)
    marks = absent[:, absent.any(axis=0)] if action == "indicator" else absent[:, :0]
    return filled, marks.astype(np.float64)


def extremes(rows: Sequence[Row], columns: Sequence[str], values: npt.NDArray[np.float64]) -> list[Finding]:
    """Values that no measurement gives, such as 1e30 for "unknown": they shrink all others when standardised."""
    findings = []
    for column, numbers in zip(columns, values.T, strict=True):
        low, median, high = np.quantile(numbers, [0.25, 0.5, 0.75])
        scale = (high - low) or max(1.0, abs(median))
        far = np.flatnonzero(np.abs(numbers - median) > _FARTHEST * scale)
        if not len(far):
            continue
        first = int(far[0])
        text = (
            f"Column '{column}' has {counted(len(far), 'value')} more than a million quartile ranges away from its "
            f"median, {median:.6g}: {numbers[first]:.6g} in {rows[first].place}"
            f"{' and others' if len(far) > 1 else ''}. If that stands for an unknown value, leave it empty and set "
            "missing in [dataset]."
        )
        findings.append(Finding(kind="extreme", count=len(far), action="keep", text=text))
    return findings
