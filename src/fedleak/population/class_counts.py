"""How many examples of each class users have, by chance or by design, and splits based on these counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.lazy import stats
from fedleak.population.population import Examples, User

__all__ = ["ClassCounts", "alike_by_design", "common", "stratified"]

Mask = npt.NDArray[np.bool_]

_BY_DESIGN = 1e-3  # p-value below which similar class counts are considered to be by design
_LEAST_SHARED = 0.5  # of the private examples: of classes that are in the prior, too
_LEAST_KEPT = 0.5  # of all examples: a split that discards more than it keeps is not worth it


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """How many examples of each class every user has on each side."""

    classes: IntArray
    test: IntArray
    prior: IntArray
    private: IntArray

    def draw(self, y: npt.NDArray[Any] | None, rng: np.random.Generator) -> tuple[Mask, Mask, Mask] | None:
        """Draw this many for one user: test, prior and private; None if the user has too few of a class."""
        assert y is not None  # `common` found classes
        masks = tuple(np.zeros(len(y), dtype=np.bool_) for _ in range(3))
        for number, *wanted in zip(self.classes, self.test, self.prior, self.private, strict=True):
            rows = rng.permutation(np.flatnonzero(y == number))
            if len(rows) < sum(wanted):
                return None
            for mask, part in zip(masks, np.split(rows[: sum(wanted)], np.cumsum(wanted)[:-1]), strict=True):
                mask[part] = True
        return masks[0], masks[1], masks[2]


def _table(users: Sequence[User]) -> tuple[IntArray, IntArray] | None:
    """The classes, and how many examples of each every user has; None where labels are not classes."""
    labels = [user.examples.y for user in users]
    if not labels or any(y is None or y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) for y in labels):
        return None
    every = np.concatenate([y for y in labels if y is not None])
    classes, inverse = np.unique(every, return_inverse=True)
    owner = np.repeat(np.arange(len(labels)), [len(y) for y in labels if y is not None])
    counts = np.zeros((len(labels), len(classes)), dtype=np.int64)
    np.add.at(counts, (owner, inverse), 1)
    return classes.astype(np.int64), counts


def alike_by_design(users: Sequence[User]) -> bool:
    """Whether users' class counts are more similar than independent draws from one distribution would be.

    Pearson's statistic for the table of users against classes: data collected as "ten of each digit from every user"
    varies far less than chance. For such a user, a random half with more of a class leaves less for the other half.
    """
    found = _table(users)
    if found is None:
        return False
    counts = found[1]
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1)
    if freedom < 1:
        return False
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    statistic = ((counts - expected) ** 2 / expected).sum()
    return bool(stats.chi2.cdf(statistic, freedom) < _BY_DESIGN)


def common(users: Sequence[User], prior_share: float, test_share: float, most: int | None) -> ClassCounts | None:
    """Choose how many of each class every user has, so that as many examples as possible are kept.

    In proportion to the classes; users who have fewer cannot take part. None where that would discard most of the
    data, leave a side empty, or put most classes on one side only.
    """
    found = _table(users)
    if found is None:
        return None
    classes, counts = found
    mean = counts.mean(axis=0)
    best, kept = np.zeros(len(classes), dtype=np.int64), 0
    for scale in np.linspace(1.0, 0.05, 96):
        wanted = np.floor(scale * mean + 1e-9).astype(np.int64)
        if most is not None and wanted.sum() > most:
            wanted = np.floor(wanted * (most / wanted.sum())).astype(np.int64)
        able = int((counts >= wanted).all(axis=1).sum())
        if able >= 2 and able * wanted.sum() > kept:
            best, kept = wanted, able * int(wanted.sum())
    available = counts.sum() if most is None else np.minimum(counts.sum(axis=1), most).sum()
    if kept < _LEAST_KEPT * available:
        return None
    test = _portion(best, test_share)
    prior = _portion(best - test, prior_share)
    private = best - test - prior
    if prior.sum() == 0 or private.sum() == 0:
        return None
    # With one example of each class, no class would be on both sides of anybody: nothing could be recognised, and a
    # model tested on classes that nobody trained on.
    if private[prior > 0].sum() < _LEAST_SHARED * private.sum():
        return None
    return ClassCounts(classes, test, prior, private)


def _portion(counts: IntArray, share: float) -> IntArray:
    """Take a share of each class, rounded to match the total; the same for every user, so it reveals nothing."""
    taken = np.floor(share * counts + 1e-9).astype(np.int64)
    spare = round(share * int(counts.sum())) - int(taken.sum())
    order = np.argsort(-(share * counts - taken), kind="stable")
    taken[order[: max(spare, 0)]] += 1
    capped: IntArray = np.minimum(taken, counts)
    return capped


def stratified(examples: Examples, share: float, rng: np.random.Generator) -> Mask | None:
    """Split a user's own class counts evenly; None where labels are not classes or a side would be empty."""
    y = examples.y
    if y is None:
        return None
    way: Callable[[npt.NDArray[Any], float, np.random.Generator], Mask] | None = None
    if y.ndim == 2:
        way = _by_rows
    elif np.issubdtype(y.dtype, np.integer):
        way = _by_class
    mask = way(y, share, rng) if way else None
    return mask if mask is not None and 0 < mask.sum() < len(y) else None


def _by_class(y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> Mask:
    """Give every class the same share, to within one example, and the total too."""
    n = len(y)
    total = min(max(round(share * n), 1), n - 1)
    classes, inverse, counts = np.unique(y, return_inverse=True, return_counts=True)
    exact = share * counts
    take = np.floor(exact + 1e-9).astype(np.int64)
    # The largest remainders get what is left over; equal ones in random order.
    order = np.lexsort((rng.random(len(classes)), -np.round(exact - take, 9)))
    spare = total - int(take.sum())
    for i in range(abs(spare)):
        take[order[i] if spare > 0 else order[-1 - i]] += 1 if spare > 0 else -1
    mask = np.zeros(n, dtype=np.bool_)
    for c in range(len(classes)):
        mask[rng.permutation(np.flatnonzero(inverse == c))[: take[c]]] = True
    return mask


def _by_rows(y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> Mask:
    """The same for several labels per example, as closely as possible (Sechidis et al., 2011).

    The rarest label is assigned first: each of its examples goes to the side that still needs it most.
    """
    n = len(y)
    shares = np.array([1 - share, share])
    wanted = shares[:, None] * y.sum(axis=0)  # (side, label)
    room = shares * n
    side = np.full(n, -1)
    while (free := np.flatnonzero(side < 0)).size:
        left = y[free].sum(axis=0)
        rows = free
        label = None
        if left.any():
            label = int(np.argmin(np.where(left > 0, left, np.inf)))
            rows = free[y[free, label] > 0]
        for row in rng.permutation(rows):
            claim = room if label is None else wanted[:, label]
            chosen = int(np.lexsort((rng.random(2), room, np.round(claim, 9)))[-1])
            side[row] = chosen
            wanted[chosen] -= y[row]
            room[chosen] -= 1
    mask: Mask = side == 1
    return mask
