"""Rows of a CSV or JSON Lines file; each knows where it stands, so that an error says file, line and column."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from fedleak.errors import DataError, did_you_mean
from fedleak.population.datasets.compressed import SUFFIXES, UNREADABLE, open_bytes

__all__ = ["Row", "read_rows"]


@dataclass(frozen=True, slots=True)
class Row:
    """One row: values by column."""

    file: Path
    line: int
    values: Mapping[str, Any]

    def error(self, column: str, problem: str) -> DataError:
        """Make the error that says where a problem is."""
        return DataError(f"{self.file}, line {self.line}, column '{column}': {problem}")

    def optional(self, column: str) -> str:
        """Return a value as text; empty where there is none."""
        if column not in self.values:
            raise DataError(
                f"{self.file}, line {self.line}: no column '{column}'{did_you_mean(column, map(str, self.values))}"
            )
        value = self.values[column]
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            raise self.error(column, f"expected text or a number, got {type(value).__name__}")
        return str(value)

    def text(self, column: str) -> str:
        """Return a value as text; it must not be empty."""
        value = self.optional(column)
        if not value.strip():
            raise self.error(column, "the value is missing; fill it in or remove the row")
        return value

    def number(self, column: str) -> float:
        """Return a value as a finite number."""
        value = self.text(column)
        try:
            # Python reads "1_000" as a number; nobody else does.
            number = float(value if "_" not in value else "")
        except ValueError:
            raise self.error(column, f"{_short(value)} is not a number") from None
        if not math.isfinite(number):
            raise self.error(column, f"{_short(value)} is not a finite number; fill it in or remove the row")
        return number

    def days(self, column: str) -> float:
        """Return a time (ISO 8601, or seconds since 1970) in days since 1970; NaN where there is none."""
        value = self.optional(column).strip()
        if not value:
            return math.nan
        try:
            return float(value) / 86400 if _numeric(value) else _stamp(value) / 86400
        except (ValueError, OverflowError):
            hint = "neither a date like 2024-05-31 nor seconds since 1970"
            raise self.error(column, f"{_short(value)} is {hint}") from None


def _short(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:37] + "...")


def _numeric(value: str) -> bool:
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _stamp(value: str) -> float:
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_rows(file: Path) -> Iterator[Row]:
    """Read a file by its name: .csv, .jsonl or .ndjson, as it is or compressed (.gz, .xz)."""
    inner = file.with_suffix("") if file.suffix.lower() in SUFFIXES else file
    kinds = {".csv": _csv, ".jsonl": _json_lines, ".ndjson": _json_lines}
    parse = kinds.get(inner.suffix.lower())
    if parse is None:
        raise DataError(f"{file}: unknown kind of table; expected {', '.join(kinds)}, each also with .gz or .xz")
    try:
        with open_bytes(file) as raw:
            yield from parse(file, raw)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except UNREADABLE as error:
        raise DataError(f"{file}: cannot be read ({error})") from error


def _decoded(file: Path, raw: IO[bytes]) -> Iterator[str]:
    """Decode line by line, so that an error knows its line."""
    for number, line in enumerate(raw, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); save the file in UTF-8"
            ) from None


def _csv(file: Path, raw: IO[bytes]) -> Iterator[Row]:
    rows = csv.reader(_decoded(file, raw), strict=True)
    try:
        header = next(rows, None)
        if not header:
            raise DataError(f"{file}: empty; expected a first line with the names of the columns")
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise DataError(f"{file}, line 1: column '{twice[0]}' appears twice; rename one of them")
        for values in rows:
            if not values:  # an empty line
                continue
            if len(values) != len(header):
                raise DataError(
                    f"{file}, line {rows.line_num}: {len(values)} values for {len(header)} columns; "
                    "a value with a comma or a line break needs double quotes"
                )
            yield Row(file, rows.line_num, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise DataError(f"{file}, line {rows.line_num}: {error}") from error


def _json_lines(file: Path, raw: IO[bytes]) -> Iterator[Row]:
    for number, line in enumerate(_decoded(file, raw), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file}, line {number}: not JSON ({error})") from None
        if not isinstance(values, dict):
            raise DataError(f'{file}, line {number}: expected an object like {{"user": ...}}')
        yield Row(file, number, values)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(name for name in names if names.count(name) > 1)}' appears twice")
    return values
