"""Rows of a table in a file; each knows where it stands, so that an error says file, line and column."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fedleak.errors import DataError, did_you_mean
from fedleak.population.datasets import arrow_rows
from fedleak.population.datasets.compressed import SUFFIXES, UNREADABLE, open_bytes

__all__ = ["KINDS", "Row", "read_rows", "require_columns", "find_separator", "is_missing", "short"]

KINDS = (".csv", ".tsv", ".jsonl", ".ndjson", *arrow_rows.KINDS)
_SEPARATORS = (",", ";", "\t", "|")  # in this order where a header does not decide
_NAMES = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "nan", "null"})  # not "none", which is a class in many tables
_SHEETS = (".xlsx", ".xls", ".ods")
_ZIP = b"PK\x03\x04"
_FIELD = 2**24  # characters in one value; the standard library stops at 2**17, which long texts exceed


@dataclass(frozen=True, slots=True)
class Row:
    """One row: values by column."""

    file: Path
    line: int
    values: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Where it stands in its file, in words."""
        return f"{'row' if self.file.suffix.lower() in arrow_rows.KINDS else 'line'} {self.line}"

    def error(self, column: str, problem: str) -> DataError:
        """Make the error that says where a problem is."""
        return DataError(f"{self.file}, {self.place}, column '{column}': {problem}")

    def optional(self, column: str) -> str:
        """Return a value as text; empty where there is none."""
        if column not in self.values:
            raise DataError(
                f"{self.file}, {self.place}: no column '{column}'{did_you_mean(column, map(str, self.values))}"
            )
        value = self.values[column]
        if value is None:
            return ""
        if isinstance(value, (dict, list)):
            raise self.error(column, f"expected text or a number, got {type(value).__name__}")
        return str(value)

    def text(self, column: str) -> str:
        """Return a value as text; it must not be empty."""
        # Without the spaces around it: with them, "anna " would be another user than "anna".
        value = self.optional(column).strip()
        if not value:
            raise self.error(column, "the value is missing; fill it in or remove the row")
        return value

    def number(self, column: str) -> float:
        """Return a value as a finite number; it must not be empty."""
        value = self.text(column)
        try:
            # Python reads "1_000" as a number; nobody else does.
            number = float(value if "_" not in value else "")
        except ValueError:
            raise self.error(column, f"{short(value)} is not a number") from None
        if not math.isfinite(number):
            raise self.error(column, f"{short(value)} is not a finite number; fill it in or remove the row")
        return number


def is_missing(value: str) -> bool:
    """Whether a value says that there is none.

    >>> [value for value in ("", " ", "?", "NA", "n/a", "NaN", "null", "0", "none") if not is_missing(value)]
    ['0', 'none']
    """
    return value.strip().lower() in _MISSING


def short(value: str) -> str:
    """A value in quotes, cut where it is long."""
    return repr(value if len(value) <= 40 else value[:37] + "...")


def read_rows(file: Path, separator: str | None = None) -> Iterator[Row]:
    """Read a file by its name: CSV, JSON Lines, Parquet or Arrow; text also compressed (.gz, .xz).

    The separator of a CSV file is found from its header, unless it is given.
    """
    inner = file.with_suffix("") if file.suffix.lower() in SUFFIXES else file
    kind = inner.suffix.lower()
    if kind not in KINDS or (kind in arrow_rows.KINDS and inner is not file):
        if kind in _SHEETS:
            raise DataError(f"{file}: a spreadsheet; save the sheet as CSV")
        raise DataError(
            f"{file}: unknown kind of table; expected .csv, .tsv, .jsonl or .ndjson, each also with .gz or .xz, "
            f"or {', '.join(arrow_rows.KINDS)}"
        )
    if kind in arrow_rows.KINDS:
        yield from (Row(file, number, values) for number, values in arrow_rows.read(file))
        return
    try:
        with open_bytes(file) as raw:
            if kind in (".csv", ".tsv"):
                yield from _csv(file, raw, separator or ("\t" if kind == ".tsv" else None))
            else:
                yield from _json_lines(file, raw)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except UNREADABLE as error:
        raise DataError(f"{file}: cannot be read ({error})") from error


def require_columns(rows: Sequence[Row], columns: Iterable[str]) -> None:
    """Reject columns that no row has; JSON objects may leave out what they have no value for."""
    known = dict.fromkeys(column for row in rows for column in row.values)
    for column in columns:
        if column not in known:
            raise DataError(f"{rows[0].file}: no column '{column}'{did_you_mean(column, map(str, known))}")


def _decoded(file: Path, raw: IO[bytes]) -> Iterator[str]:
    """Decode line by line, so that an error knows its line."""
    start = raw.read(4)
    if start == _ZIP:
        raise DataError(f"{file}: a zip archive or an Excel file, not text; save the table as CSV")
    raw.seek(0)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):  # "Unicode text" of Excel
        wide = io.TextIOWrapper(raw, "utf-16", newline="")
        try:
            yield from wide
        except UnicodeError as error:
            raise DataError(f"{file}: damaged UTF-16 ({error}); save the file in UTF-8") from None
        finally:
            wide.detach()  # whoever opened the file closes it
        return
    for number, line in enumerate(raw, 1):
        if b"\0" in line:
            raise DataError(f"{file}, line {number}: a NUL byte, which no text has; save the file in UTF-8")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{file}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x}); save the file in UTF-8"
            ) from None


def find_separator(header: str) -> str:
    """The separator that divides a header into most columns; a comma if none does.

    >>> find_separator("user;weight, kg;label"), find_separator('"a;b;c",d')
    (';', ',')
    """

    def columns(separator: str) -> int:
        return max(map(len, csv.reader([header], delimiter=separator)), default=0)

    return max(_SEPARATORS, key=columns)


def _csv(file: Path, raw: IO[bytes], separator: str | None) -> Iterator[Row]:
    lines = _decoded(file, raw)
    first, before = next(lines, ""), 0
    csv.field_size_limit(_FIELD)
    if said := re.fullmatch(r"sep=(.)\r?\n?", first):  # how Excel is told the separator
        separator, first, before = separator or said[1], next(lines, ""), 1
    try:
        separator = separator or find_separator(first)
    except csv.Error as error:
        raise DataError(f"{file}, line {1 + before}: {_why(error)}") from error
    rows = csv.reader(itertools.chain([first], lines) if first else lines, strict=True, delimiter=separator)
    try:
        header = [name.strip() for name in next(rows, [])]
        if not header:
            raise DataError(f"{file}: empty; expected a first line with the names of the columns")
        twice = sorted({name for name in header if header.count(name) > 1})
        if twice:
            raise DataError(f"{file}, line 1: column '{twice[0]}' appears twice; rename one of them")
        for values in rows:
            if not values or (len(values) == 1 < len(header) and not values[0].strip()):  # an empty line
                continue
            if len(values) != len(header):
                raise DataError(
                    f"{file}, line {before + rows.line_num}: {len(values)} values for {len(header)} columns; "
                    f"a value with {_NAMES.get(separator, separator)} or a line break needs double quotes"
                )
            yield Row(file, before + rows.line_num, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise DataError(f"{file}, line {before + rows.line_num}: {_why(error)}") from error


def _why(error: csv.Error) -> str:
    """What the standard library's reader found, without its advice to programmers."""
    said = str(error)
    return "line ends of old Macs (CR); save it with those of Unix or Windows" if "new-line" in said else said


def _json_lines(file: Path, raw: IO[bytes]) -> Iterator[Row]:
    for number, line in enumerate(_decoded(file, raw), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            why = "a number with thousands of digits" if "set_int_max_str_digits" in str(error) else error
            raise DataError(f"{file}, line {number}: not JSON ({why})") from None
        if not isinstance(values, dict):
            whole = "; write each object of the array on a line of its own" if isinstance(values, list) else ""
            raise DataError(f'{file}, line {number}: expected an object like {{"user": ...}}{whole}')
        yield Row(file, number, values)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(name for name in names if names.count(name) > 1)}' appears twice")
    return values
