"""Your own data as rows: a table with a column for the user and columns for what they wrote or measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, counted
from fedleak.errors import DataError
from fedleak.population import fingerprint, text
from fedleak.population.datasets import features as columns_of
from fedleak.population.datasets import rows as tables
from fedleak.population.datasets.dates import read_days
from fedleak.population.datasets.rows import Row
from fedleak.population.finding import Finding
from fedleak.population.population import Examples, Population, User

__all__ = ["TableDataset", "class_names"]

_SEPARATORS: Mapping[str, str | None] = {"auto": None, "tab": "\t"}
_Floats = npt.NDArray[np.float64]
_Build = Callable[[Sequence[int]], Examples]


@dataclass(frozen=True, kw_only=True)
class TableDataset:
    """Your own CSV (with a header line), JSON Lines, Parquet or Arrow file, one row per example."""

    name: ClassVar[str] = "table"

    path: Annotated[
        str,
        Meta(
            min_length=1,
            description="the file: .csv, .tsv, .jsonl or .ndjson, also with .gz or .xz; "
            ".parquet, .arrow or .feather with fedleak[arrow]",
        ),
    ]
    separator: Annotated[
        str, Meta(description="of a CSV file: `auto` finds it from the header; `tab`, or one character such as `;`")
    ] = "auto"
    decimal: Annotated[
        Literal["point", "comma"], Meta(description="how numbers are written: 1.5, or 1,5 (then 1.234,5 is 1234.5)")
    ] = "point"
    task: Annotated[
        Literal["classify", "next-token", "regress"],
        Meta(description="learn the label as a class, the next word of the text, or the label as a number"),
    ] = "classify"
    user: Annotated[str, Meta(description="column with the user's name")] = "user"
    text: Annotated[str | None, Meta(description="column with text; either this or features")] = None
    features: Annotated[
        str | tuple[str, ...],
        Meta(description="columns with numbers, `*` for any characters (`X*`, `*`); either these or text"),
    ] = ()
    missing: Annotated[
        Literal["stop", "drop", "mean", "indicator"],
        Meta(
            description="values that are empty, `?`, `NA`, `NaN` or `null`: stop with their number, leave the row out, "
            "set features to the mean of all users, or do that and mark them in a column of 0 and 1"
        ),
    ] = "stop"
    label: Annotated[str | None, Meta(description="column with the label, unless the task is next-token")] = None
    time: Annotated[
        str | None, Meta(description="column with dates (2024-05-31 or 20240531) or seconds since 1970")
    ] = None
    album: Annotated[str | None, Meta(description="column that says which examples belong to one occasion")] = None
    document: Annotated[
        str | None, Meta(description="column that says which rows belong to one document, which is never divided")
    ] = None
    attributes: Annotated[
        tuple[str, ...], Meta(description="columns with attributes of the user, the same in all of a user's rows")
    ] = ()
    vocabulary: Annotated[int, Meta(ge=10, le=100_000, description="words the model knows, for text")] = 500
    length: Annotated[int, Meta(ge=2, le=1000, description="words in an example, for text")] = 20
    standardise: Annotated[
        bool, Meta(description="standardise every feature to mean 0 and standard deviation 1 over all users")
    ] = True

    def load(self, seed: int) -> Population:
        """Read the file; everything is used, so the seed plays no part."""
        self._check()
        task, file = Task(self.task), Path(self.path).expanduser()
        everything = list(tables.read_rows(file, _SEPARATORS.get(self.separator, self.separator)))
        if not everything:
            raise DataError(f"{self.path}: no rows")
        everything, features, findings = self._complete(everything)
        rows_of: dict[UserId, list[int]] = {}
        for i, row in enumerate(everything):
            rows_of.setdefault(UserId(row.text(self.user)), []).append(i)
        classes: tuple[str, ...] = ()
        if task is Task.CLASSIFY and self.label is not None:
            classes = class_names({row.text(self.label) for row in everything})
        columns = self._columns(everything, classes)
        if len(classes) == 1:
            raise DataError(f"{self.path}, column '{self.label}': every label is '{classes[0]}'; nothing to learn")
        build, words = (
            self._texts(everything, rows_of, columns) if features is None else (self._numbers(*features, columns), ())
        )
        return Population(
            users=tuple(
                User(name, build(at), self._about(name, [everything[i] for i in at])) for name, at in rows_of.items()
            ),
            task=task,
            outputs={Task.CLASSIFY: len(classes), Task.NEXT_TOKEN: len(words), Task.REGRESS: 1}[task],
            source=f"{len(everything)} rows of {len(rows_of)} users in {Path(self.path).name}.",
            outputs_named=words if task is Task.NEXT_TOKEN else classes,
            findings=tuple(findings),
        )

    def _complete(self, rows: list[Row]) -> tuple[list[Row], tuple[_Floats, _Floats] | None, list[Finding]]:
        """Act on missing values: the rows left, their features with marks (None for text), and what was found."""
        required = [c for c in (self.user, self.label, self.text, self.album, self.document) if c is not None]
        optional = [c for c in (self.time, *self.attributes) if c is not None]
        taken = {*required, *optional}
        names = columns_of.choose_columns(self.features, rows, taken) if self.features else ()
        tables.require_columns(rows, (*required, *optional))
        numbers = {name: columns_of.read_numbers(rows, name, self.decimal) for name in names}
        masks = {name: np.isnan(column) for name, column in numbers.items()}
        for column in required:
            blank = (lambda value: not value.strip()) if column != self.label else tables.is_missing
            masks[column] = np.array([column not in r.values or blank(r.optional(column)) for r in rows])
        missing = columns_of.Missing(rows, masks, texts=self.text is not None)
        missing.refuse(self.missing)
        # What is not a feature cannot be filled in: nobody knows whose row it is, or what its label would be.
        dropped = missing.any if self.missing == "drop" else np.any([masks[column] for column in required], axis=0)
        kept = np.flatnonzero(~dropped)
        if not len(kept):
            raise DataError(f"{self.path}: {missing.describe()}; no complete row is left")
        left, findings = [rows[i] for i in kept.tolist()], []
        if missing.any.any():
            findings.append(self._told(missing, int(dropped.sum())))
        if not names:
            return left, None, findings
        values = np.stack([numbers[name][kept] for name in names], axis=1)
        values, marks = columns_of.fill(values, names, self.missing, self.path)
        findings += columns_of.extremes(left, names, values)
        return left, (values, marks), findings

    def _told(self, missing: columns_of.Missing, dropped: int) -> Finding:
        done = {
            "mean": "Missing features were set to the mean of all users.",
            "indicator": "Missing features were set to the mean of all users and marked in a column of their own.",
        }.get(self.missing, "")
        gone = f"{counted(dropped, 'row')} left out." if dropped else ""
        text = " ".join(filter(None, (f"{missing.describe()}.", gone, done)))
        count = sum(int(mask.sum()) for mask in missing.masks.values())
        return Finding(kind="missing", count=count, action=self.missing, text=text)

    def _check(self) -> None:
        known = self.separator in _SEPARATORS or len(self.separator) == 1
        if not known or self.separator in ('"', "\n", "\r"):
            raise DataError(f"data set 'table': separator = {self.separator!r}: expected one character, tab or auto")
        if self.text is not None and self.missing in ("mean", "indicator"):
            raise DataError(
                f"data set 'table': missing = '{self.missing}' is for features; text takes 'drop' or 'stop'"
            )
        if (self.text is None) == (not self.features):
            raise DataError("data set 'table': set either text or features, and not both")
        if self.task == "next-token":
            if self.text is None:
                raise DataError("data set 'table': task = 'next-token' needs a text column")
        elif self.label is None:
            raise DataError(
                f"data set 'table': task = '{self.task}' needs labels: name their column with label = '...', "
                "or use task = 'next-token' for text without labels"
            )

    def _about(self, user: UserId, rows: Sequence[Row]) -> dict[str, str]:
        about: dict[str, str] = {}
        for column in self.attributes:
            for row in rows:
                value = row.optional(column).strip()
                if value and about.setdefault(column, value) != value:
                    raise row.error(column, f"user '{user}' had '{about[column]}' before; an attribute is one per user")
        return about

    def _columns(self, rows: Sequence[Row], classes: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Collect the columns that are the same whatever the examples are, for all rows."""
        columns: dict[str, npt.NDArray[Any]] = {}
        if self.task == "classify" and self.label is not None:
            place = {name: i for i, name in enumerate(classes)}
            columns["y"] = np.array([place[row.text(self.label)] for row in rows], dtype=np.int64)
        elif self.task == "regress" and self.label is not None:
            columns["y"] = columns_of.read_numbers(rows, self.label, self.decimal).astype(np.float32)
        if self.time is not None:
            columns["time"] = read_days(rows, self.time)
        for name, column in (("album", self.album), ("document", self.document)):
            if column is not None:
                columns[name] = np.unique([row.text(column) for row in rows], return_inverse=True)[1].astype(np.int64)
        return columns

    def _numbers(self, values: _Floats, marks: _Floats, columns: Mapping[str, npt.NDArray[Any]]) -> _Build:
        prints = fingerprint.of_rows(np.hstack([values, marks]))
        if self.standardise:
            scale = values.std(axis=0)
            values = (values - values.mean(axis=0)) / np.where(scale == 0, 1.0, scale)  # a constant stays 0
        x = np.hstack([values, marks]).astype(np.float32)

        def build(at: Sequence[int]) -> Examples:
            return Examples(x=x[at], fingerprint=prints[at], **{name: column[at] for name, column in columns.items()})

        return build

    def _texts(
        self, rows: Sequence[Row], rows_of: Mapping[UserId, list[int]], columns: Mapping[str, npt.NDArray[Any]]
    ) -> tuple[_Build, tuple[str, ...]]:
        column = self.text
        assert column is not None

        def split(row: Row) -> list[list[str]]:
            """Sentences where text is predicted; otherwise the row as it is, since the label belongs to all of it."""
            value = row.text(column)
            return text.sentences(value, self.length) if self.task == "next-token" else [text.tokenise(value)]

        tokens = [split(row) for row in rows]
        words = text.vocabulary(
            ([piece for i in at for piece in tokens[i]] for at in rows_of.values()), self.vocabulary
        )
        index = {word: i for i, word in enumerate(words)}

        def build(at: Sequence[int]) -> Examples:
            pieces = [tokens[i] for i in at]
            own = {name: values[at] for name, values in columns.items()}
            if self.task == "next-token":
                own.setdefault("document", np.arange(len(at), dtype=np.int64))
            x = text.encode([piece for some in pieces for piece in some], index, self.length)
            prints = fingerprint.of_texts(_documents([rows[i] for i in at], column, own.get("document")))
            repeated = np.repeat(np.arange(len(at)), [len(some) for some in pieces])
            return Examples(x=x, fingerprint=prints[repeated], **{name: value[repeated] for name, value in own.items()})

        return build, words


def _documents(rows: Sequence[Row], column: str, document: npt.NDArray[np.int64] | None) -> list[str]:
    """For every row the text of the document it belongs to: a sentence found in two documents is not a copy."""
    if document is None:
        return [row.text(column) for row in rows]
    parts: dict[int, list[str]] = {}
    for row, number in zip(rows, document.tolist(), strict=True):
        parts.setdefault(number, []).append(row.text(column))
    whole = {number: "\n".join(part) for number, part in parts.items()}
    return [whole[number] for number in document.tolist()]


def class_names(labels: set[str]) -> tuple[str, ...]:
    """Sort the names of classes, by value if all of them are whole numbers.

    >>> class_names({"10", "9"}), class_names({"10", "9", "b"})
    (('9', '10'), ('10', '9', 'b'))
    """
    try:
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(labels))
