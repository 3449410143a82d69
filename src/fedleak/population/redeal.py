"""The IID control: all data is pooled and redistributed at random, so that no data is user-specific any more.

This comes before sampling, trimming, splitting and injecting. So the control goes through everything that the run goes
through, and an artificial leak created by the set-up shows up in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedleak.core import IntArray
from fedleak.population import splits
from fedleak.population.population import Examples, User

__all__ = ["redeal"]


def redeal(users: Sequence[User], rng: np.random.Generator, *, within_classes: bool = False) -> tuple[User, ...]:
    """Redistribute all documents (albums, days, or single examples); each user gets as many as before.

    What belongs together stays together, so that a split that divides it is caught. Where users' class counts are
    equal by design, examples are exchanged `within_classes`, which keeps the design. Names, attributes and secrets
    stay with their users: in redistributed data an attack must not find them.
    """
    owners = [user for user in users if len(user.examples)]
    if not owners:
        return tuple(users)
    pool = Examples.concat(_numbered([user.examples for user in owners]))
    rows = _by_class(owners, pool, rng) if within_classes else _by_unit(owners, rng)
    dealt = {user.id: replace(user, examples=pool.take(mine)) for user, mine in zip(owners, rows, strict=True)}
    return tuple(dealt.get(user.id, user) for user in users)


def _numbered(parts: Sequence[Examples]) -> list[Examples]:
    """Number documents and albums consecutively across users; each user's own numbers start at zero."""
    numbered, start = [], {"document": 0, "album": 0}
    for part in parts:
        shifted: dict[str, Any] = {}
        for name, at in start.items():
            column = getattr(part, name)
            if column is not None:
                shifted[name] = np.unique(column, return_inverse=True)[1].astype(np.int64) + at
                start[name] = int(shifted[name].max()) + 1
        numbered.append(replace(part, **shifted))
    return numbered


def _by_unit(owners: Sequence[User], rng: np.random.Generator) -> list[IntArray]:
    of_unit: list[IntArray] = []  # the rows of each unit
    counts, start = [], 0
    for user in owners:
        unit = splits.units(user.examples)
        order = np.argsort(unit, kind="stable")
        parts = np.split(order + start, np.cumsum(np.bincount(unit))[:-1])
        of_unit += parts
        counts.append(len(parts))
        start += len(unit)
    order = rng.permutation(len(of_unit))
    hands = np.split(order, np.cumsum(counts)[:-1])
    return [np.sort(np.concatenate([of_unit[i] for i in hand])) for hand in hands]


def _by_class(owners: Sequence[User], pool: Examples, rng: np.random.Generator) -> list[IntArray]:
    assert pool.y is not None  # only classes can be alike by design
    owner = np.repeat(np.arange(len(owners)), [len(user.examples) for user in owners])
    for number in np.unique(pool.y):
        rows = np.flatnonzero(pool.y == number)
        owner[rows] = owner[rng.permutation(rows)]
    return [np.flatnonzero(owner == i) for i in range(len(owners))]
