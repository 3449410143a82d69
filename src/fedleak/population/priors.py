"""How a user's examples are divided into what the adversary knows (prior) and what stays on the device (private)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from fedleak.core import IntArray
from fedleak.errors import DataError
from fedleak.population.population import Examples

__all__ = ["PriorName", "Mask", "divide", "hold_out", "groups", "require"]

PriorName: TypeAlias = Literal["random", "chrono", "album", "none"]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NEEDS: Mapping[PriorName, str] = {"chrono": "time", "album": "album"}


def require(examples: Examples, prior: PriorName, source: str) -> None:
    """Refuse a prior for which the data set lacks the column."""
    column = _NEEDS.get(prior)
    if column is None:
        return
    values = getattr(examples, column)
    if values is None:
        raise DataError(
            f"prior = '{prior}' needs the {column} of every example, which this data set does not have "
            f"({source.rstrip('.')}). Name its {column} column if it has one, or use prior = 'random'."
        )
    if column == "album" and not np.issubdtype(values.dtype, np.integer):
        # NaN is no album: NaNs are one group or many depending on who counts them.
        raise DataError(
            f"prior = 'album' needs a whole number for the album of every example, not {values.dtype} "
            f"({source.rstrip('.')}). Number the albums, and give pictures of no album a number each."
        )


def groups(examples: Examples, *, albums: bool = False) -> IntArray:
    """Number the groups of examples that must stay together: documents, and albums where asked.

    Sentences of one post share their subject: divided between both sides they would give the user away by the post,
    not by the person. A document with pictures of two albums joins these albums.
    """
    columns = [examples.document, examples.album if albums else None]
    present = [np.unique(column, return_inverse=True)[1] for column in columns if column is not None]
    n = len(examples)
    if not present:
        return np.arange(n, dtype=np.int64)
    edges = [(np.arange(n), n + sum(int(c.max()) + 1 for c in present[:i]) + c) for i, c in enumerate(present) if n]
    if not edges:
        return np.zeros(0, dtype=np.int64)
    rows, columns_ = (np.concatenate(part) for part in zip(*edges, strict=True))
    size = int(columns_.max()) + 1
    graph = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns_)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1]
    return np.unique(labels[:n], return_inverse=True)[1].astype(np.int64)


def _cut(sizes: IntArray, share: float, allowed: Mask | None = None) -> int | None:
    """How many of the groups, in this order, come nearest to a share of the examples and leave some for both sides."""
    reached = np.cumsum(sizes)[:-1]
    miss = np.abs(reached - share * sizes.sum())
    if allowed is not None:
        miss = np.where(allowed, miss, np.inf)
    if not len(miss) or not np.isfinite(miss).any():
        return None
    return int(np.argmin(miss)) + 1


def _whole_groups(group: IntArray, share: float, rng: np.random.Generator) -> Mask | None:
    sizes = np.bincount(group)
    order = rng.permutation(len(sizes))
    cut = _cut(sizes[order], share)
    return None if cut is None else np.isin(group, order[:cut])


def _stratified(y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> Mask | None:
    """Give every class the same share, to within one example, and the total too.

    Random halves of a user with nearly even classes have opposite surpluses: a class that is rare in one half is
    frequent in the other, which distorts every comparison of the two.
    """
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
    return mask if 0 < mask.sum() < n else None


def _stratified_rows(y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> Mask | None:
    """The same where an example has several labels, as nearly as that goes (Sechidis et al., 2011).

    The rarest label is dealt out first: each of its examples goes to the side that still wants it most.
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
    return mask if 0 < mask.sum() < n else None


def _even(y: npt.NDArray[Any] | None) -> Callable[[npt.NDArray[Any], float, np.random.Generator], Mask | None] | None:
    """How to divide these labels evenly; None where they are no classes."""
    if y is None:
        return None
    if y.ndim == 2:
        return _stratified_rows
    return _stratified if np.issubdtype(y.dtype, np.integer) else None


def _random(examples: Examples, share: float, stratify: bool, rng: np.random.Generator) -> Mask | None:
    even = _even(examples.y)
    if stratify and examples.document is None and even is not None and examples.y is not None:
        mask = even(examples.y, share, rng)
        if mask is not None:
            return mask
    return _whole_groups(groups(examples), share, rng)


def _album(examples: Examples, share: float, stratify: bool, rng: np.random.Generator) -> Mask | None:
    return _whole_groups(groups(examples, albums=True), share, rng)


def _chrono(examples: Examples, share: float, stratify: bool, rng: np.random.Generator) -> Mask | None:
    """Everything in the prior is strictly older than everything private; whole documents, whole days."""
    assert examples.time is not None  # `require` was asked before
    group = groups(examples)
    count = int(group.max()) + 1
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, group, examples.time)
    np.maximum.at(last, group, examples.time)
    order = np.lexsort((last, first))
    allowed = np.maximum.accumulate(last[order])[:-1] < first[order][1:]
    cut = _cut(np.bincount(group)[order], share, allowed)
    return None if cut is None else np.isin(group, order[:cut])


def _as_listed(examples: Examples, share: float) -> Mask | None:
    """Take the earlier rows for the older ones, where nothing better is known."""
    group = groups(examples)
    first = np.unique(group, return_index=True)[1]
    order = np.argsort(first)
    cut = _cut(np.bincount(group)[order], share)
    return None if cut is None else np.isin(group, order[:cut])


_WAYS: Mapping[PriorName, Callable[[Examples, float, bool, np.random.Generator], Mask | None]] = {
    "random": _random,
    "chrono": _chrono,
    "album": _album,
}


def divide(
    examples: Examples,
    prior: PriorName,
    share: float,
    rng: np.random.Generator,
    *,
    stratify: bool = True,
    untimed: bool = False,
) -> Mask | None:
    """Say which examples the adversary knows, or None if there is no way to leave some on both sides.

    A user whose times are unusable but who was kept all the same (`untimed`) is divided in the order of the data.
    """
    if prior == "none":
        return np.zeros(len(examples), dtype=np.bool_) if len(examples) else None
    if len(examples) < 2:
        return None
    if prior == "chrono" and untimed:
        return _as_listed(examples, share)
    return _WAYS[prior](examples, share, stratify, rng)


def hold_out(examples: Examples, share: float, rng: np.random.Generator, *, albums: bool) -> Mask:
    """Choose what of a user's examples tests the trained model; at least two groups remain to be divided."""
    even = _even(examples.y)
    if even is not None and examples.y is not None and examples.document is None and not albums and len(examples) > 2:
        mask = even(examples.y, share, rng)
        if mask is not None and len(examples) - mask.sum() >= 2:
            return mask
    group = groups(examples, albums=albums)
    sizes = np.bincount(group)
    held = np.zeros(len(examples), dtype=np.bool_)
    for g in rng.permutation(len(sizes))[: max(len(sizes) - 2, 0)]:
        if held.sum() + sizes[g] / 2 <= share * len(examples):
            held |= group == g
    return held
