"""Split a user's examples into what the adversary knows (prior) and what stays on the client (private).

The two sides must be independent draws given the user. Otherwise the split itself makes them dependent, and an audit
reports an artificial leak, or misses a real one (docs/decisions/0010-independent-splits.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.errors import DataError, PlanError
from fedleak.lazy import scipy
from fedleak.plan.plan import PopulationPlan
from fedleak.population import class_counts
from fedleak.population.class_counts import ClassCounts
from fedleak.population.finding import UNBALANCED
from fedleak.population.population import Examples, User

__all__ = [
    "PriorName",
    "SplitName",
    "Mask",
    "Sides",
    "Split",
    "choose",
    "at_random",
    "groups",
    "units",
    "require",
    "STRATIFIED",
]

PriorName: TypeAlias = Literal["random", "chrono", "album", "none"]
SplitName: TypeAlias = Literal["independent", "balanced", "half", "stratified", "chrono", "album", "none"]
Mask: TypeAlias = npt.NDArray[np.bool_]

_NEEDS: Mapping[PriorName, str] = {"chrono": "time", "album": "album"}


@dataclass(frozen=True, slots=True)
class Sides:
    """Which of a user's examples test the model, which the adversary knows and which stay on the client.

    No example is on two sides. One that is on none is not used.
    """

    test: Mask
    prior: Mask
    private: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How every user of a population is split; chosen once, for both the run and its control."""

    name: SplitName
    prior_share: float
    test_share: float  # 0 where the data set has its own test set
    counts: ClassCounts | None = None  # balanced: how many of each class every user has on each side
    by_design: bool = False  # users' class counts are more similar than chance would make them
    unit: Literal["example", "document", "album", "day"] = "example"  # what stays together

    def __call__(self, examples: Examples, rng: np.random.Generator, *, untimed: bool = False) -> Sides | None:
        """Split one user's examples, or return None where that would leave a side empty.

        A user whose times are unusable but who was kept (`untimed`) is split in the order of the data.
        """
        if self.counts is not None:
            masks = self.counts.draw(examples.y, rng)
            return None if masks is None else Sides(*masks)
        test = self._hold_out(examples, rng)
        rest = np.flatnonzero(~test)
        known = self._known(examples.take(rest), rng, untimed)
        if known is None:
            return None
        prior, private = (np.zeros(len(examples), dtype=np.bool_) for _ in range(2))
        prior[rest[known]] = True
        private[rest[~known]] = True
        return Sides(test, prior, private)

    def _known(self, examples: Examples, rng: np.random.Generator, untimed: bool) -> Mask | None:
        if self.name == "none":
            return np.zeros(len(examples), dtype=np.bool_) if len(examples) else None
        if len(examples) < 2:
            return None
        if self.name == "chrono" and untimed:
            return _as_listed(examples, self.prior_share)
        return _WAYS[self.name](examples, self.prior_share, rng)

    def _hold_out(self, examples: Examples, rng: np.random.Generator) -> Mask:
        """Choose the test examples at random; at least two units remain to be split."""
        if not self.test_share:
            return np.zeros(len(examples), dtype=np.bool_)
        group = units(examples) if self.name in ("independent", "album") else groups(examples)
        return at_random(group, self.test_share, rng)

    @property
    def told(self) -> str:
        """One sentence for every output: how users' data was split, and what to know about it."""
        told = _TOLD[self.name].format(unit=self.unit)
        if self.by_design and self.name == "independent":
            told += f" {UNBALANCED}"
        return told


STRATIFIED = (
    "The split is stratified by class. It copies each user's class counts, including chance deviations, to both sides, "
    "and so creates artificial leaks. Do not sign off on these scores: remove split = 'stratified' from [population]."
)
_TOLD: Mapping[SplitName, str] = {
    "independent": "Each user's data is split at random by {unit}, so that the two sides are independent draws given "
    "the user.",
    "balanced": "Every user has the same number of examples of each class on each side: users' class counts are more "
    "similar than chance would make them, and a random split would make the two sides opposites of each other.",
    "half": "Each user's data is divided into random halves (split = 'half', as in Gradient-Leaks). Where users' class "
    "counts are equal by design, this pushes scores below chance and can hide leaks.",
    "stratified": STRATIFIED,
    "chrono": "Each user's older data is the prior and the newer data is private.",
    "album": "Each user's data is split at random by album.",
    "none": "The adversary has no prior data.",
}


def choose(users: Sequence[User], plan: PopulationPlan, *, test_share: float) -> Split:
    """Choose the split that the plan sets, or the most neutral one for the data."""
    common: dict[str, Any] = {"prior_share": plan.prior_share, "test_share": test_share}
    if plan.prior != "random":
        if plan.split != "auto":
            raise PlanError(
                f"[population]: split = '{plan.split}' applies only to a random prior, but prior = '{plan.prior}'; "
                "remove one of the two"
            )
        return Split(name=plan.prior, unit="document" if plan.prior == "none" else _unit(users), **common)
    unit = _unit(users)
    by_design = unit == "example" and class_counts.alike_by_design(users)
    if plan.split in ("half", "stratified"):
        return Split(name=plan.split, by_design=by_design, **common)
    if plan.split == "balanced" or (plan.split == "auto" and by_design):
        counts = class_counts.common(users, plan.prior_share, test_share, plan.examples) if unit == "example" else None
        if counts is not None:
            return Split(name="balanced", by_design=by_design, counts=counts, **common)
        if plan.split == "balanced":
            raise DataError(
                "split = 'balanced' needs data with one class label per example, no documents, albums or times, and "
                "users with several examples of the same classes; use split = 'independent'"
            )
    return Split(name="independent", by_design=by_design, unit=unit, **common)


def require(examples: Examples, prior: PriorName, source: str) -> None:
    """Reject a prior for which the data set lacks the column."""
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
        # NaN is not an album: NaNs are one group or many, depending on the function that counts them.
        raise DataError(
            f"prior = 'album' needs a whole number for the album of every example, not {values.dtype} "
            f"({source.rstrip('.')}). Number the albums, and give each image without an album its own number."
        )


def _unit(users: Sequence[User]) -> Literal["example", "document", "album", "day"]:
    """The unit of these users' data that is never divided."""
    first = users[0].examples if users else None
    if first is not None and first.document is not None:
        return "document"
    if first is not None and first.album is not None:
        return "album"
    return "day" if first is not None and first.time is not None else "example"


def at_random(group: IntArray, share: float, rng: np.random.Generator) -> Mask:
    """Draw whole groups until they hold about a share of the examples; at least two groups are left."""
    drawn = np.zeros(len(group), dtype=np.bool_)
    if not share:
        return drawn
    sizes = np.bincount(group)
    for g in rng.permutation(len(sizes))[: max(len(sizes) - 2, 0)]:
        if drawn.sum() + sizes[g] / 2 <= share * len(group):
            drawn |= group == g
    return drawn


def units(examples: Examples) -> IntArray:
    """Number what belongs together: documents and albums, or else examples of one day, or else every example.

    Examples from one occasion resemble each other beyond what is typical of the user. On both sides of a split, they
    would reveal the occasion, not the user.
    """
    if examples.document is not None or examples.album is not None or examples.time is None:
        return groups(examples, albums=True)
    day = np.floor(examples.time)
    unknown = np.isnan(day)
    # An example without a time is a separate unit; days are counted from 1970, so these numbers are free.
    day[unknown] = np.nanmax(day, initial=0) + 1 + np.arange(int(unknown.sum()))
    return np.unique(day, return_inverse=True)[1].astype(np.int64)


def groups(examples: Examples, *, albums: bool = False) -> IntArray:
    """Number the groups of examples that are never divided: documents, and albums if requested.

    Sentences of one post share their topic: on both sides of a split, they would reveal the post, not the user. A
    document with images from two albums joins these albums.
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
    graph = scipy.sparse.coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns_)), shape=(size, size))
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return np.unique(labels[:n], return_inverse=True)[1].astype(np.int64)


def _cut(sizes: IntArray, share: float, allowed: Mask | None = None) -> int | None:
    """How many of the groups, in this order, come closest to a share of the examples and leave some for both sides."""
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


def _independent(examples: Examples, share: float, rng: np.random.Generator) -> Mask | None:
    return _whole_groups(units(examples), share, rng)


def _half(examples: Examples, share: float, rng: np.random.Generator) -> Mask | None:
    return _whole_groups(groups(examples), share, rng)


def _stratified(examples: Examples, share: float, rng: np.random.Generator) -> Mask | None:
    mask = class_counts.stratified(examples, share, rng) if examples.document is None else None
    return _half(examples, share, rng) if mask is None else mask


def _chrono(examples: Examples, share: float, rng: np.random.Generator) -> Mask | None:
    """Everything in the prior is strictly older than everything private; whole documents, whole days."""
    assert examples.time is not None  # checked by `require`
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
    """Treat earlier rows as older, if nothing better is known."""
    group = groups(examples)
    first = np.unique(group, return_index=True)[1]
    order = np.argsort(first)
    cut = _cut(np.bincount(group)[order], share)
    return None if cut is None else np.isin(group, order[:cut])


_WAYS: Mapping[SplitName, Callable[[Examples, float, np.random.Generator], Mask | None]] = {
    "independent": _independent,
    "album": _independent,
    "half": _half,
    "stratified": _stratified,
    "chrono": _chrono,
}
