"""The difference of one score between two audits, with its confidence interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedleak.core import IntArray, rng_for
from fedleak.errors import FedleakError
from fedleak.metrics.attack_result import AttackResult, groups, pooled
from fedleak.metrics.binary import by_weights
from fedleak.metrics.interval import Interval, in_chunks, percentiles
from fedleak.metrics.metric import Metric
from fedleak.metrics.ranking import Ranking, Weights
from fedleak.results.audit import Score

__all__ = ["Difference", "difference"]

_RESAMPLES = 2000
Statistic = Callable[[Weights], Weights]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One score in two audits: here minus there."""

    attack: str
    adversary: str
    game: str
    metric: str
    defence: dict[str, Any] | None
    adaptive: bool
    control: str | None
    here: float
    there: float
    difference: float  # here - there
    low: float
    high: float
    level: float
    excludes_zero: bool  # the interval does: sampling of users does not explain the difference
    paired: bool  # the same users were resampled in both; otherwise the interval is computed from the two intervals


def difference(
    here: Score,
    there: Score,
    metric: Metric | None = None,
    mine: Sequence[AttackResult] | None = None,
    theirs: Sequence[AttackResult] | None = None,
    *,
    same_runs: bool = False,
) -> Difference:
    """Compare one score of two audits; with `metric`, `mine` and `theirs`, from their predictions.

    Users differ more from each other than audits do, so an interval that takes the same users in both is narrower.
    With `same_runs` both attack the same trained federations, so equal predictions mean no difference.
    """
    if here.level != there.level:
        raise FedleakError(
            f"one result has intervals of {here.level:.0%}, the other of {there.level:.0%}; "
            "score both with the same level in [audit]"
        )
    gap = here.value - there.value
    found = None
    if mine and theirs and same_runs and _same(mine, theirs):
        found = Interval(0.0, 0.0)
    elif metric is not None and mine and theirs:
        found = _paired(mine, theirs, metric, here.level)
    ends = found or _unpaired(here, there)
    low, high = min(gap, ends.low), max(gap, ends.high)
    return Difference(
        attack=here.attack,
        adversary=here.adversary,
        game=here.game,
        metric=here.metric,
        defence=here.defence,
        adaptive=here.adaptive,
        control=here.control,
        here=here.value,
        there=there.value,
        difference=gap,
        low=low,
        high=high,
        level=here.level,
        excludes_zero=low > 0 or high < 0,
        paired=found is not None,
    )


def _unpaired(here: Score, there: Score) -> Interval:
    """The interval of a difference from those of its two sides (Newcombe, 1998; Zou and Donner, 2008)."""
    gap = here.value - there.value
    return Interval(
        gap - math.hypot(here.value - here.low, there.high - there.value),
        gap + math.hypot(here.high - here.value, there.value - there.low),
    )


def _paired(
    mine: Sequence[AttackResult], theirs: Sequence[AttackResult], metric: Metric, level: float
) -> Interval | None:
    """Bootstrap the difference with the same users on both sides; None where that is impossible."""
    if [one.seed for one in mine] != [one.seed for one in theirs]:
        return None
    users, who = pooled([*mine, *theirs])
    halves = who[: len(mine)], who[len(mine) :]
    if users < 2 or any(set(a.flat) != set(b.flat) for a, b in zip(*halves, strict=True)):
        return None
    first, second = (_statistic(one, about, users, metric) for one, about in zip((mine, theirs), halves, strict=True))
    if first is None or second is None:
        return None
    # As in the scores' own intervals, how many users have a trait is part of the question.
    strata = groups([*mine, *theirs], users, who) if metric.ranked else np.zeros(users, dtype=np.int64)
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    rng = rng_for(mine[0].seed, "difference", metric.name)

    def draw(rows: int) -> Weights:
        weights = np.empty((rows, users))
        for group in members:
            weights[:, group] = rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=rows)
        return np.stack([first(weights), second(weights)], axis=1)

    questions = max(len(one.right) for one in [*mine, *theirs])
    both = in_chunks(draw, _RESAMPLES, questions)
    both = both[np.isfinite(both).all(axis=1)]
    drawn = both[:, 0] - both[:, 1]
    # Where all users of one side agree, resampling shows no uncertainty; the scores' own intervals do.
    if len(both) < 2 or np.ptp(both, axis=0).min() < 1e-12:
        return None
    ends = percentiles(drawn, max(2, min(len(group) for group in members)), level)
    [gap] = first(np.ones((1, users))) - second(np.ones((1, users)))
    bias = float(drawn.mean() - gap)
    return Interval(ends.low - bias, ends.high - bias)


def _same(mine: Sequence[AttackResult], theirs: Sequence[AttackResult]) -> bool:
    return len(mine) == len(theirs) and all(
        np.array_equal(a.claims, b.claims) and np.array_equal(a.right, b.right)
        for a, b in zip(mine, theirs, strict=True)
    )


def _statistic(played: Sequence[AttackResult], who: Sequence[IntArray], users: int, metric: Metric) -> Statistic | None:
    """The metric as a function of how often each user is drawn; None where it cannot be expressed so."""
    if metric.ranked is not None:
        return by_weights(played, [Ranking.of(one.claims[:, 0]) for one in played], who, metric.ranked)
    if metric.per_user is None:
        return None
    sums, total = np.zeros(users), np.zeros(users)
    for one, about in zip(played, who, strict=True):
        each = metric.per_user(one)
        # The number of each user of this run in the numbering that both audits share.
        present, first = np.unique(one.about[:, 0], return_index=True)
        for place, number in zip(present, about[first, 0], strict=True):
            value, weight = each.get(one.users[place], (0.0, 0.0))
            sums[number] += value * weight
            total[number] += weight

    def mean(weights: Weights) -> Weights:
        part, whole = weights @ sums, weights @ total
        return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))

    return mean
