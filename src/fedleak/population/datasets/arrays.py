"""A data set of arrays in memory, for whoever audits from Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedleak.core import Task, UserId
from fedleak.errors import DataError
from fedleak.plan.content import content_digest
from fedleak.population.population import Examples, Population, User

__all__ = ["ArrayDataset", "to_examples"]


@dataclass(frozen=True, eq=False)
class ArrayDataset:
    """Arrays and labels by user: `ArrayDataset({"ann": (x, y), "bob": (x, y)})`.

    `x` holds one example a row: floats (examples, features), images (examples, channels, height, width) in [0, 1], or
    whole numbers (examples, length), which are token ids, 0 after the end. `y` is a class for each example, as a whole
    number from 0; a float, to predict a number; or a row of 0 and 1 by class. Tokens need none: `{"ann": tokens}`. A
    user may also be `Examples`, with times or albums beside them.
    """

    name: ClassVar[str] = "arrays"

    users: Mapping[str, Any]
    task: Task | None = None  # told from the labels, if absent
    outputs: int | None = None  # classes, or size of the vocabulary; the highest one that occurs, if absent
    test: Any = None  # (x, y) of nobody's, to measure utility on; otherwise some of everybody's data is held out
    background: Any = None  # (x, y) of other users, for defences and attacks that need public data
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of users: {"ann": {"age": "30s"}}
    source: str = ""  # one sentence for the report: what this data is

    def __post_init__(self) -> None:
        if not isinstance(self.users, Mapping):
            raise DataError(f"ArrayDataset: expected users as a dict {{name: (x, y)}}, got {type(self.users).__name__}")
        if len(self.users) < 2:
            raise DataError(f"ArrayDataset: {len(self.users)} user(s); an audit tells users apart, so it needs two")
        first, shape, labels = None, None, None
        for where, examples in self._everything():
            first = first or where
            kinds = (examples.x.dtype, examples.x.shape[1:]), _kind(examples.y)
            if shape is None:
                shape, labels = kinds
            if shape != kinds[0]:
                raise DataError(
                    f"ArrayDataset: {where} has examples of {_shown(*kinds[0])}, {first} of {_shown(*shape)}"
                )
            if labels != kinds[1]:
                raise DataError(f"ArrayDataset: {where} has {kinds[1]}, {first} has {labels}")
        strangers = sorted(set(self.attributes) - set(self.users))
        if strangers:
            raise DataError(f"ArrayDataset: attributes of '{strangers[0]}', who is not among the users")

    def load(self, seed: int) -> Population:
        """Everyone as they were given, whatever the seed."""
        everything = dict(self._everything())
        users = [(name, everything[f"user '{name}'"]) for name in self.users]
        sample = users[0][1]
        task = self.task or _task(sample)
        total = sum(len(examples) for _, examples in users)
        return Population(
            users=tuple(User(UserId(name), mine, dict(self.attributes.get(name, {}))) for name, mine in users),
            task=task,
            outputs=self.outputs or _outputs(task, list(everything.values())),
            source=self.source or f"{total} examples of {len(users)} users, given as arrays.",
            test=everything.get("test"),
            background=everything.get("background"),
        )

    def plain_settings(self) -> dict[str, Any]:
        """What a plan says of it: a digest stands for the arrays."""
        held = {name: getattr(self, name) for name in ("users", "task", "outputs", "test", "background", "attributes")}
        return {"users": len(self.users), "content": content_digest(held), "source": self.source}

    def _everything(self) -> Iterator[tuple[str, Examples]]:
        for name, value in self.users.items():
            if not isinstance(name, str) or not name:
                raise DataError(f"ArrayDataset: a user's name must be text, got {name!r}")
            yield f"user '{name}'", to_examples(value, f"user '{name}'")
        for name in ("test", "background"):
            value = getattr(self, name)
            if value is not None:
                yield name, to_examples(value, name)


def to_examples(value: Any, where: str) -> Examples:
    """Check one user's arrays and give them the types that a population has."""
    if isinstance(value, Examples):
        return value
    pair = isinstance(value, (tuple, list)) and len(value) == 2
    x, y = (np.asarray(value[0]), value[1]) if pair else (np.asarray(value), None)
    if x.dtype.kind not in "fiub":
        raise DataError(f"ArrayDataset, {where}: expected (x, y) as arrays of numbers, got {x.dtype} for x")
    if x.ndim == 3:
        raise DataError(
            f"ArrayDataset, {where}: x has shape {x.shape}; images need a channel: x[:, None] is "
            "(examples, 1, height, width)"
        )
    if x.ndim not in (2, 4) or not len(x):
        raise DataError(
            f"ArrayDataset, {where}: x has shape {x.shape}; expected (examples, features) or "
            "(examples, channels, height, width), with at least one example"
        )
    if x.dtype.kind != "f" and (x.ndim == 4 or x.min() < 0):
        raise DataError(
            f"ArrayDataset, {where}: x holds {x.dtype}; whole numbers are token ids. Give features and images as "
            "floats, images in [0, 1] (x / 255)"
        )
    if not np.isfinite(x).all():
        raise DataError(f"ArrayDataset, {where}: x holds values that are not finite; fill them in or leave them out")
    return Examples(
        x=x.astype(np.float32 if x.dtype.kind == "f" else np.int64), y=_labels(y, len(x), x.dtype.kind == "f", where)
    )


def _labels(y: Any, rows: int, needed: bool, where: str) -> npt.NDArray[Any] | None:
    if y is None:
        if needed:
            raise DataError(
                f"ArrayDataset, {where}: no labels; give (x, y). Only token ids can be learnt without, as text"
            )
        return None
    labels = np.asarray(y)
    if labels.dtype.kind not in "fiub" or labels.ndim not in (1, 2):
        raise DataError(
            f"ArrayDataset, {where}: labels of {labels.dtype} and shape {labels.shape}; expected classes as whole "
            "numbers, floats, or rows of 0 and 1"
        )
    if len(labels) != rows:
        raise DataError(f"ArrayDataset, {where}: {rows} examples and {len(labels)} labels")
    if labels.ndim == 2 or labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError(f"ArrayDataset, {where}: labels that are not finite")
        return labels.astype(np.float32)
    if labels.min() < 0:
        raise DataError(f"ArrayDataset, {where}: class {labels.min()}; classes count from 0")
    return labels.astype(np.int64)


def _kind(y: npt.NDArray[Any] | None) -> str:
    if y is None:
        return "no labels"
    if y.ndim == 2:
        return f"rows of {y.shape[1]} labels"
    return "whole numbers as labels" if y.dtype.kind == "i" else "floats as labels"


def _shown(dtype: Any, shape: tuple[int, ...]) -> str:
    return f"shape {shape} and type {dtype}"


def _task(examples: Examples) -> Task:
    if examples.y is None:
        return Task.NEXT_TOKEN
    if examples.y.ndim == 2:
        return Task.MULTI_LABEL
    return Task.CLASSIFY if examples.y.dtype.kind == "i" else Task.REGRESS


def _outputs(task: Task, everything: list[Examples]) -> int:
    if task is Task.REGRESS:
        return 1
    if task is Task.NEXT_TOKEN:
        return 1 + max(int(examples.x.max()) for examples in everything)
    labels = [examples.y for examples in everything if examples.y is not None]
    return int(labels[0].shape[1]) if task is Task.MULTI_LABEL else 1 + max(int(y.max()) for y in labels)
