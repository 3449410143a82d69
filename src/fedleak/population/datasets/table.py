"""Your own data as rows: CSV or JSON Lines with a column for the user and columns for what they wrote or measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId
from fedleak.errors import DataError
from fedleak.population import fingerprint, text
from fedleak.population.datasets import rows as tables
from fedleak.population.datasets.rows import Row
from fedleak.population.population import Examples, Population, User

__all__ = ["TableDataset", "class_names"]


@dataclass(frozen=True, kw_only=True)
class TableDataset:
    """Your own CSV (with a header line) or JSON Lines file, one row per example, optionally compressed."""

    name: ClassVar[str] = "table"

    path: Annotated[str, Meta(min_length=1, description="the file: .csv, .jsonl or .ndjson, also with .gz or .xz")]
    task: Annotated[
        Literal["classify", "next-token", "regress"],
        Meta(description="learn the label as a class, the next word of the text, or the label as a number"),
    ] = "classify"
    user: Annotated[str, Meta(description="column with the user's name")] = "user"
    text: Annotated[str | None, Meta(description="column with text; either this or features")] = None
    features: Annotated[tuple[str, ...], Meta(description="columns with numbers; either these or text")] = ()
    label: Annotated[str | None, Meta(description="column with the label, unless the task is next-token")] = None
    time: Annotated[
        str | None, Meta(description="column with dates (2024-05-31) or seconds since 1970; empty where unknown")
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
        task = Task(self.task)
        rows_of: dict[UserId, list[Row]] = {}
        for row in tables.read_rows(Path(self.path).expanduser()):
            rows_of.setdefault(UserId(row.text(self.user)), []).append(row)
        if not rows_of:
            raise DataError(f"{self.path}: no rows")
        everything = [row for rows in rows_of.values() for row in rows]
        classes: tuple[str, ...] = ()
        if task is Task.CLASSIFY and self.label is not None:
            classes = class_names({row.text(self.label) for row in everything})
        build, words = self._texts(rows_of) if self.text else (self._numbers(everything), ())
        place = {name: i for i, name in enumerate(classes)}

        def user(name: UserId, rows: list[Row]) -> User:
            return User(name, build(rows, place), self._about(name, rows))

        users = tuple(user(name, rows) for name, rows in rows_of.items())
        if len(classes) == 1:
            raise DataError(f"{self.path}, column '{self.label}': every label is '{classes[0]}'; nothing to learn")
        return Population(
            users=users,
            task=task,
            outputs={Task.CLASSIFY: len(classes), Task.NEXT_TOKEN: len(words), Task.REGRESS: 1}[task],
            source=f"{len(everything)} rows of {len(rows_of)} users in {Path(self.path).name}.",
            outputs_named=words if task is Task.NEXT_TOKEN else classes,
        )

    def _check(self) -> None:
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

    def _columns(self, rows: Sequence[Row], place: dict[str, int]) -> dict[str, Any]:
        """Collect the columns that are the same whatever the examples are."""
        columns: dict[str, Any] = {}
        if self.task == "classify":
            assert self.label is not None
            columns["y"] = np.array([place[row.text(self.label)] for row in rows], dtype=np.int64)
        elif self.task == "regress":
            assert self.label is not None
            columns["y"] = np.array([row.number(self.label) for row in rows], dtype=np.float32)
        if self.time is not None:
            columns["time"] = np.array([row.days(self.time) for row in rows], dtype=np.float64)
        for name, column in (("album", self.album), ("document", self.document)):
            if column is not None:
                columns[name] = np.unique([row.text(column) for row in rows], return_inverse=True)[1].astype(np.int64)
        return columns

    def _numbers(self, everything: Sequence[Row]) -> Callable[[Sequence[Row], dict[str, int]], Examples]:
        def numbers(rows: Sequence[Row]) -> npt.NDArray[np.float64]:
            return np.array([[row.number(column) for column in self.features] for row in rows])

        mean, scale = np.zeros(len(self.features)), np.ones(len(self.features))
        if self.standardise:
            values = numbers(everything)
            mean, scale = values.mean(axis=0), values.std(axis=0)
            scale[scale == 0] = 1.0  # a constant stays 0

        def build(rows: Sequence[Row], place: dict[str, int]) -> Examples:
            values = numbers(rows)
            x = ((values - mean) / scale).astype(np.float32)
            return Examples(x=x, fingerprint=fingerprint.of_rows(values), **self._columns(rows, place))

        return build

    def _texts(
        self, rows_of: dict[UserId, list[Row]]
    ) -> tuple[Callable[[Sequence[Row], dict[str, int]], Examples], tuple[str, ...]]:
        column = self.text
        assert column is not None

        def split(row: Row) -> list[list[str]]:
            """Sentences where text is predicted; otherwise the row as it is, since the label belongs to all of it."""
            value = row.text(column)
            return text.sentences(value, self.length) if self.task == "next-token" else [text.tokenise(value)]

        tokens = {row.line: split(row) for rows in rows_of.values() for row in rows}
        words = text.vocabulary(
            ([piece for row in rows for piece in tokens[row.line]] for rows in rows_of.values()), self.vocabulary
        )
        index = {word: i for i, word in enumerate(words)}

        def build(rows: Sequence[Row], place: dict[str, int]) -> Examples:
            pieces = [tokens[row.line] for row in rows]
            at = np.repeat(np.arange(len(rows)), [len(some) for some in pieces])
            columns = self._columns(rows, place)
            if self.task == "next-token":
                columns.setdefault("document", np.arange(len(rows), dtype=np.int64))
            x = text.encode([piece for some in pieces for piece in some], index, self.length)
            prints = fingerprint.of_texts(_documents(rows, column, columns.get("document")))
            return Examples(x=x, fingerprint=prints[at], **{name: value[at] for name, value in columns.items()})

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
