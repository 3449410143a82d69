"""Small populations for the tests of this room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedleak.core import Task, UserId
from fedleak.population.population import Examples, Population, User
from fedleak.population.prepare import Prepared


def examples(numbers: Sequence[int], **columns: Any) -> Examples:
    """Examples that can be told apart: x and fingerprint are the given numbers."""
    x = np.array(numbers, dtype=np.float32).reshape(-1, 1)
    marks = np.array(numbers, dtype=np.uint64).reshape(-1, 1)
    columns.setdefault("y", np.zeros(len(x), dtype=np.int64))
    return Examples(x=x, fingerprint=marks, **columns)


def user(name: str, numbers: Sequence[int], attributes: Mapping[str, str] | None = None, **columns: Any) -> User:
    return User(UserId(name), examples(numbers, **columns), attributes or {})


def crowd(count: int, size: int = 10, classes: int = 2) -> tuple[User, ...]:
    """Users with nothing in common: the numbers of the first begin at 1000, of the second at 2000, and so on."""
    return tuple(
        user(f"u{i}", range(1000 * (i + 1), 1000 * (i + 1) + size), y=np.arange(size, dtype=np.int64) % classes)
        for i in range(count)
    )


@dataclass(frozen=True, kw_only=True)
class Given:
    """A data set that is what the test says."""

    name: ClassVar[str] = "given"
    users: tuple[User, ...]
    task: Task = Task.CLASSIFY
    test: Examples | None = field(default_factory=lambda: examples([10**6]))
    background: Examples | None = None

    def load(self, seed: int) -> Population:
        return Population(
            users=self.users,
            task=self.task,
            outputs=2,
            source="made up for a test",
            test=self.test,
            background=self.background,
        )


def numbers(rows: Examples) -> list[int]:
    """The numbers by which these examples can be told apart."""
    return [int(value) for value in rows.x[:, 0]]


def everything(prepared: Prepared) -> list[int]:
    """The numbers of everybody, prior and private."""
    return sorted(n for share in prepared.shares for side in (share.prior, share.private) for n in numbers(side))
