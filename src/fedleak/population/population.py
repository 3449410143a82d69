"""The types of this package: examples in columns, users, and the population that a data set yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from fedleak.core import Task, UserId
from fedleak.population.finding import Finding

__all__ = ["Examples", "User", "Records", "Population", "Share", "Dataset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Examples of one user (or of a test or background set), one row each, in columns of equal length."""

    x: npt.NDArray[Any]  # float32 features or images in [0, 1] (channel, height, width); int64 token ids, 0 pads
    # int64 classes, float32 ratings, or float32 rows of 0 and 1 by class; None where the text itself is predicted
    y: npt.NDArray[Any] | None = None
    time: npt.NDArray[np.float64] | None = None  # days since 1970; NaN where unknown
    album: npt.NDArray[np.int64] | None = None  # examples from one occasion
    document: npt.NDArray[np.int64] | None = None  # sentences of one document are never on both sides of a split
    owner: npt.NDArray[np.int64] | None = None  # whose example it is, where a set has those of many users
    fingerprint: npt.NDArray[np.uint64] | None = None  # of the raw content, to find duplicates: (rows, bands)

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: npt.NDArray[Any] | Sequence[int] | slice) -> Examples:
        """Keep only these rows, in this order."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: column[rows] for name, column in kept.items() if column is not None})

    @staticmethod
    def concat(parts: Iterable[Examples]) -> Examples:
        """Concatenate examples; a column is kept only if every part has it."""
        parts = list(parts)
        columns: dict[str, Any] = {}
        for f in fields(Examples):
            column = [getattr(part, f.name) for part in parts]
            columns[f.name] = None if any(c is None for c in column) else np.concatenate(column)
        return Examples(**columns)


@dataclass(frozen=True, slots=True)
class User:
    """A user, with all of their data."""

    id: UserId
    examples: Examples
    attributes: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()  # records planted in the examples, known to no other user
    decoys: tuple[str, ...] = ()  # records of the same format that are planted nowhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What is public about secrets: their format, the model's alphabet, and the context before a secret."""

    form: str  # text with slots, as `secret_formats.parse` reads it
    words: tuple[str, ...] = ()  # the values of the slot {word}
    characters: tuple[str, ...]  # the character of each token id; 0 is padding
    context: str = "\n"

    def spell(self, texts: Sequence[str], longest: int) -> npt.NDArray[np.int32]:
        """Token ids of each text, 0 after its end."""
        index = {character: number for number, character in enumerate(self.characters)}
        ids = np.zeros((len(texts), longest), dtype=np.int32)
        for row, text in zip(ids, texts, strict=True):
            row[: len(text)] = [index[character] for character in text]
        return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """All users of a data set, their common task, and data that belongs to none of them."""

    users: tuple[User, ...]
    task: Task
    outputs: int  # classes, vocabulary size, or 1 for a regression
    source: str  # one sentence for the report: what this data is and where it comes from
    test: Examples | None = None  # the data set's own test set, if it has one
    background: Examples | None = None  # other users' data, for defences; disjoint from every user
    outputs_named: tuple[str, ...] = ()  # names of classes or words, if there are any
    records: Records | None = None  # where users hold secrets: their format
    # Traits of an example: 1 shows it, 0 does not, -1 could not.
    traits: Mapping[str, Callable[[Examples], npt.NDArray[np.int8]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()  # what reading the data found: missing values, ignored files


@dataclass(frozen=True, slots=True)
class Share:
    """One user's examples, divided into what the adversary knows and what stays on the client."""

    user: User
    prior: Examples
    private: Examples


class Dataset(Protocol):
    """A data set is a frozen dataclass of its settings that can be loaded.

    `load` reads everything it has; choosing users, holding out a test set and splitting prior from private data is
    done by this package, in the same way for all data sets.
    """

    name: ClassVar[str]

    def load(self, seed: int) -> Population:
        """Read or generate the population; raise a DataError that says what to download and where to put it."""
        ...
