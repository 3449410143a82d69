"""How much two audits differ in the same number, with an interval of the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedleak.core import IntArray, rng_for
from fedleak.errors import FedleakError
from fedleak.score import identification, permutation, traits
from fedleak.score.attack_result import AttackResult, groups, pooled
from fedleak.score.interval import Interval, _percentiles, in_chunks
from fedleak.score.ranking import Ranking, Weights
from fedleak.score.result import Score

__all__ = ["Difference", "difference"]

_RESAMPLES = 2000
_RANKED: dict[str, Callable[[Ranking, Weights, Weights], Weights]] = {
    "ap": Ranking.average_precision,
    "auc": Ranking.auc,
}
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
    excludes_zero: bool  # the interval does: the two differ by more than who happened to take part explains
    paired: bool  # the same users were resampled in both; otherwise the interval follows from those of the two scores


def difference(
    here: Score,
    there: Score,
    mine: Sequence[AttackResult] | None = None,
    theirs: Sequence[AttackResult] | None = None,
    *,
    same_runs: bool = False,
) -> Difference:
    """Compare one score of two audits; `mine` and `theirs` are what the two were made from, where that is at hand.

    Users differ more from each other than audits do, so an interval that takes the same users in both is narrower.
    With `same_runs` both are of the same trained federations: equal predictions are then no coincidence.
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
    elif mine and theirs:
        found = _paired(mine, theirs, here.metric, here.level)
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


def _paired(mine: Sequence[AttackResult], theirs: Sequence[AttackResult], metric: str, level: float) -> Interval | None:
    """Bootstrap the difference with the same users on both sides; None where that cannot be done."""
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
    strata = groups([*mine, *theirs], users, who) if _is_ranked(mine, metric) else np.zeros(users, dtype=np.int64)
    members = [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]
    rng = rng_for(mine[0].seed, "difference", metric)

    def draw(rows: int) -> Weights:
        weights = np.empty((rows, users))
        for group in members:
            weights[:, group] = rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=rows)
        return np.stack([first(weights), second(weights)], axis=1)

    questions = max(len(one.right) for one in [*mine, *theirs])
    both = in_chunks(draw, _RESAMPLES, questions)
    both = both[np.isfinite(both).all(axis=1)]
    drawn = both[:, 0] - both[:, 1]
    # Where all users of one side agree, resampling shows no doubt about it; the scores' own intervals do.
    if len(both) < 2 or np.ptp(both, axis=0).min() < 1e-12:
        return None
    ends = _percentiles(drawn, max(2, min(len(group) for group in members)), level)
    [gap] = first(np.ones((1, users))) - second(np.ones((1, users)))
    bias = float(drawn.mean() - gap)
    return Interval(ends.low - bias, ends.high - bias)


def _same(mine: Sequence[AttackResult], theirs: Sequence[AttackResult]) -> bool:
    return len(mine) == len(theirs) and all(
        np.array_equal(a.claims, b.claims) and np.array_equal(a.right, b.right)
        for a, b in zip(mine, theirs, strict=True)
    )


def _is_ranked(played: Sequence[AttackResult], metric: str) -> bool:
    """Whether all questions are ranked by one claim each."""
    return metric in _RANKED and all(one.claims.ndim == 2 and one.claims.shape[1] == 1 for one in played)


def _statistic(played: Sequence[AttackResult], who: Sequence[IntArray], users: int, metric: str) -> Statistic | None:
    """The metric as a function of how often each user is drawn; None where it is none."""
    if _is_ranked(played, metric):
        rankings = [Ranking.of(one.claims[:, 0]) for one in played]

        def ranked(weights: Weights) -> Weights:
            rows = []
            for one, ranking, about in zip(played, rankings, who, strict=True):
                # Two different users both have to be drawn for their pair to be there, one user only once.
                pair = about[:, 0] != about[:, -1]
                every = weights[:, about[:, 0]] * np.where(pair, weights[:, about[:, -1]], 1.0)
                rows.append(_RANKED[metric](ranking, every * one.right, every))
            return np.asarray(np.mean(rows, axis=0))

        return ranked
    sums, total = np.zeros(users), np.zeros(users)
    for one, about in zip(played, who, strict=True):
        each = _each(one, metric)
        if each is None:
            return None
        # What a user of this run is called in the numbering that both audits share.
        present, first = np.unique(one.about[:, 0], return_index=True)
        for place, number in zip(present, about[first, 0], strict=True):
            value, weight = each.get(one.users[place], (0.0, 0.0))
            sums[number] += value * weight
            total[number] += weight

    def mean(weights: Weights) -> Weights:
        part, whole = weights @ sums, weights @ total
        return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))

    return mean


def _each(one: AttackResult, metric: str) -> dict[str, tuple[float, float]] | None:
    """The metric of each user, with what it counts in the mean; None where the metric is no mean over users."""
    if one.game == "attribute" and metric == "top1":
        value, shares = traits.answered(one)
        names = [one.users[place] for place in np.unique(one.about[:, 0])]
        return {name: (float(share[v]), 1.0) for name, v, share in zip(names, value, shares, strict=True)}
    if one.game != "identify" or metric not in ("ap", "top1", "top5"):
        return None
    named = identification.users(one)
    if metric == "ap":
        tally = permutation.average_precision(one.claims, one.right, named)
    else:
        tally = permutation.top(one.claims, one.right, int(metric[3:]), named)
    values = zip(tally.per_user.tolist(), tally.weights.tolist(), strict=True)
    return dict(zip(one.options[:named], values, strict=True))
