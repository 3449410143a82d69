"""Intervals that resample users, and take the variation between runs into account."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray

__all__ = [
    "Ends",
    "Interval",
    "across_runs",
    "by_user",
    "in_chunks",
    "in_slices",
    "percentiles",
    "resampled",
    "resampled_users",
    "wilson",
]

_CELLS = 1_000_000  # of the table of resamples and questions that is processed at once: 8 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A lower and an upper end."""

    low: float
    high: float


Ends: TypeAlias = Callable[[float], Interval]
"""The interval of any level, from resamples that are drawn once."""


def by_user(
    values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    level: float,
    rng: np.random.Generator,
    resamples: int = 4000,
) -> Interval:
    """Bootstrap the weighted mean of one value per user, at one level; see `resampled_users`."""
    return resampled_users(values, weights, rng, resamples)(level)


def resampled_users(
    values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    rng: np.random.Generator,
    resamples: int = 4000,
) -> Ends:
    """Bootstrap the weighted mean of one value per user, resampling users rather than predictions.

    Predictions about one user are correlated; treating them as independent would make the interval too narrow.
    Where all users agree, resampling shows no uncertainty, which is implausible for few users: Wilson's interval with
    one trial per user is used instead. It is used too where each value is 0 or 1: there, resamples without any of the
    few hits (or misses) would put an end at 0 (or 1). Any other mean of shares gets at least Wilson's interval with as
    many trials as would vary as much: near 0 and 1, few users show little of the long tail, and percentiles alone hold
    the truth in 86% of cases instead of 95%.
    """
    kept = weights > 0
    values, weights = values[kept], weights[kept]
    n = len(values)
    if n < 2 or np.ptp(values) == 0 or (np.isin(values, (0, 1)).all() and np.ptp(weights) == 0):
        mean = float(values.mean()) if n else 0.0
        return lambda level: wilson(mean, n, level)
    draws = rng.integers(n, size=(resamples, n))
    means = (values[draws] * weights[draws]).sum(axis=1) / weights[draws].sum(axis=1)
    mean = float(np.average(values, weights=weights))
    error = float(means.std()) * np.sqrt(n / (n - 1))
    if values.min() < 0 or values.max() > 1 or error < 1e-9:
        return lambda level: percentiles(means, n, level)

    def ends(level: float) -> Interval:
        found, like = percentiles(means, n, level), _effective(mean, error, n, level)
        return Interval(min(found.low, like.low), max(found.high, like.high))

    return ends


def resampled(
    statistic: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    groups: IntArray,
    questions: int,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Ends:
    """Bootstrap any statistic that can be weighted by user: one row of weights per resample of the users.

    Users are drawn within their group: how many users have a trait is part of the question, and a ranking metric
    depends on it, so it must not vary with the draw.

    A ranking metric of a resample is higher than that of the sample it was drawn from, because copies of a user
    rank together; the percentiles are shifted down by this bias.
    """
    users = len(groups)
    [value] = statistic(np.ones((1, users)))
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def draw(rows: int) -> npt.NDArray[np.float64]:
        weights = np.empty((rows, users))
        for group in members:
            weights[:, group] = rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=rows)
        return statistic(weights)

    drawn = in_chunks(draw, resamples, questions) if users > 1 else np.zeros(0)
    drawn = drawn[np.isfinite(drawn)]  # a resample may have no true question
    if len(drawn) < 2 or np.ptp(drawn) < 1e-12:
        return lambda level: wilson(float(value), users, level)
    # The smallest group has the largest uncertainty.
    fewest = max(2, min(len(group) for group in members))
    bias = float(drawn.mean() - value)

    def ends(level: float) -> Interval:
        found = percentiles(drawn, fewest, level)
        return Interval(*(float(np.clip(end - bias, 0, 1)) for end in (found.low, found.high)))

    return ends


def across_runs(ends: Ends, value: float, by_seed: Sequence[float], level: float = 0.95) -> Ends:
    """Widen an interval that resamples users by what the seeds show of the variation between runs.

    The variances of users and of runs are added. Few runs say little of theirs: it is inflated by runs / (runs - 1),
    and the quantile is that of a t distribution with the degrees of freedom of the sum (Satterthwaite, 1946). How often
    such intervals hold is simulated (tests/score/test_coverage.py): of two runs that differ much, in about 90% of
    cases. t intervals of two runs alone, with a quantile of 12.7, would always hold and say nothing. Resampling two or
    three runs would show too little: a resample often takes one run twice. Where users differ between the seeds their
    variation is counted twice, so the interval is too wide rather than too narrow. One run shows nothing of it, and the
    interval is of users alone.

    A level above `level` is asked for where several attacks are to be covered at once. How runs vary concerns all of
    them alike, so only the part of the users is widened for it: t quantiles of two runs would be beyond any score.
    """
    runs = len(by_seed)
    if runs < 2:
        return ends
    between = float(np.var(by_seed, ddof=1)) / (runs - 1)
    if between < 1e-18:
        return ends

    def wider(asked: float) -> Interval:
        from scipy import stats  # takes long to import, and games that only declare their metrics do not need it

        found, usual, at = ends(asked), ends(min(asked, level)), min(asked, level)
        z = float(stats.norm.ppf((1 + at) / 2))

        def half(of_users: float, usually: float) -> float:
            variance = (max(0.0, usually) / z) ** 2 + between
            freedom = (runs - 1) * (variance / between) ** 2
            both = float(stats.t.ppf((1 + at) / 2, freedom)) ** 2 * variance
            return max(of_users, float(np.sqrt(both + max(0.0, of_users) ** 2 - max(0.0, usually) ** 2)))

        low, high = (
            value - half(value - found.low, value - usual.low),
            value + half(found.high - value, usual.high - value),
        )
        return Interval(max(0.0, min(found.low, low)), min(1.0, max(found.high, high)))

    return wider


def in_chunks(work: Callable[[int], npt.NDArray[np.float64]], rows: int, questions: int) -> npt.NDArray[np.float64]:
    """Compute a table in chunks of rows, so that memory is bounded for any number of questions."""
    return in_slices(lambda part: work(part.stop - part.start), rows, questions)


def in_slices(work: Callable[[slice], npt.NDArray[np.float64]], rows: int, questions: int) -> npt.NDArray[np.float64]:
    """The same, where the work needs to know which rows they are."""
    step = max(1, _CELLS // max(1, questions))
    return np.concatenate([work(slice(start, min(start + step, rows))) for start in range(0, rows, step)])


def percentiles(drawn: npt.NDArray[np.float64], users: int, level: float) -> Interval:
    """Widened for few users as proposed by Hesterberg (2015, "What teachers should know about the bootstrap", 5)."""
    from scipy import stats

    tail = stats.norm.cdf(np.sqrt(users / (users - 1)) * stats.t.ppf((1 - level) / 2, users - 1))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high))


def _effective(rate: float, error: float, users: int, level: float) -> Interval:
    """Wilson's interval with the effective number of trials, fewer for few users (Korn and Graubard, 1998)."""
    from scipy import stats

    few = stats.norm.ppf((1 + level) / 2) / stats.t.ppf((1 + level) / 2, users - 1)
    return wilson(rate, rate * (1 - rate) / error**2 * float(few) ** 2, level)


def wilson(rate: float, n: float, level: float) -> Interval:
    """Wilson's score interval of a rate (Wilson, 1927); nothing is known from no trial.

    >>> round(wilson(1.0, 30, 0.95).low, 3)
    0.886
    """
    if n == 0:
        return Interval(0.0, 1.0)
    from scipy import stats

    z = float(stats.norm.ppf((1 + level) / 2))
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # The ends are clamped to the rate itself: at 0 and 1 they equal it but for rounding.
    return Interval(min(rate, max(0.0, float(centre - half))), max(rate, min(1.0, float(centre + half))))
