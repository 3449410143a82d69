"""Duplicates of an example in one user's data, which must not be on both sides of a split.

They are dropped before the split. Dropping them afterwards, from one side, would make the sides opposites of each
other: a prior would never hold what the user's client holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedleak.population import fingerprint, splits
from fedleak.population.population import User
from fedleak.population.splits import Mask

__all__ = ["repeated", "without_copies"]

_COMMON = 0.05  # share of the users: what more of them hold is common property, not a duplicate
_FEWEST = 2  # twins hold the same examples


def repeated(users: Sequence[User]) -> list[Mask]:
    """Which examples of each user duplicate an earlier one of the same user.

    Within a document nothing is a duplicate: it is never divided. What many users hold is not a duplicate either (a row
    of a table with few distinct rows, an empty post): keeping one of each would make all users' data alike.
    """
    if not users:
        return []
    sizes = [len(user.examples) for user in users]
    owner = np.repeat(np.arange(len(users)), sizes)
    marks = np.concatenate([fingerprint.of(user.examples) for user in users])
    group = np.concatenate([splits.groups(user.examples) for user in users])
    copy = np.zeros(len(owner), dtype=np.bool_)
    most = max(_FEWEST, _COMMON * len(users))
    for band in marks.T:
        value = np.unique(band, return_inverse=True)[1]
        pairs, first, pair = np.unique(value * len(users) + owner, return_index=True, return_inverse=True)
        holders = np.bincount(pairs // len(users))
        copy |= (group != group[first[pair]]) & (holders[value] <= most)
    return np.split(copy, np.cumsum(sizes)[:-1])


def without_copies(users: Sequence[User], copies: Sequence[Mask]) -> tuple[User, ...]:
    """Drop the duplicates."""
    return tuple(
        replace(user, examples=user.examples.take(~mask)) if mask.any() else user
        for user, mask in zip(users, copies, strict=True)
    )
