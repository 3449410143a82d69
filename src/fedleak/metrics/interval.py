"""Intervals that resample users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray

__all__ = ["percentiles", "Interval", "by_user", "by_resample", "in_chunks", "wilson"]

_CELLS = 1_000_000  # of the table of resamples and questions that is processed at once: 8 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """A lower and an upper end."""

    low: float
    high: float


def by_user(
    values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    level: float,
    rng: np.random.Generator,
    resamples: int = 4000,
) -> Interval:
    """Bootstrap the weighted mean of one value per user, resampling users rather than predictions.

    Predictions about one user are correlated; treating them as independent would make the interval too narrow.
    Where all users agree, resampling shows no uncertainty, which is implausible for few users: Wilson's interval with
    one trial per user is used instead. And where each value is 0 or 1, resamples without any of the few hits would put
    the lower end at 0, and an extracted secret would not count as a leak: Wilson's lower end is used there.
    """
    kept = weights > 0
    values, weights = values[kept], weights[kept]
    n = len(values)
    if n < 2 or np.ptp(values) == 0:
        return wilson(float(values[0]) if n else 0.0, n, level)
    draws = rng.integers(n, size=(resamples, n))
    means = (values[draws] * weights[draws]).sum(axis=1) / weights[draws].sum(axis=1)
    found = percentiles(means, n, level)
    if found.low == 0 and np.isin(values, (0, 1)).all() and np.ptp(weights) == 0:
        return Interval(wilson(float(values.mean()), n, level).low, found.high)
    return found


def by_resample(
    statistic: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]],
    groups: IntArray,
    questions: int,
    level: float,
    rng: np.random.Generator,
    resamples: int = 1000,
) -> Interval:
    """Bootstrap any statistic that can be weighted by user: one row of weights per resample of the users.

    Users are drawn within their group: how many users have a trait is part of the question, and a ranking metric
    depends on it, so it must not vary with the draw.

    A ranking metric of a resample is higher than that of the sample it was drawn from, because copies of a user
    rank together; the percentiles are shifted down by this bias, so that the bootstrap itself does not produce a leak.
    """
    users = len(groups)
    [value] = statistic(np.ones((1, users)))
    if users < 2:
        return wilson(float(value), users, level)
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def draw(rows: int) -> npt.NDArray[np.float64]:
        weights = np.empty((rows, users))
        for group in members:
            weights[:, group] = rng.multinomial(len(group), np.full(len(group), 1 / len(group)), size=rows)
        return statistic(weights)

    drawn = in_chunks(draw, resamples, questions)
    drawn = drawn[np.isfinite(drawn)]  # a resample may have no true question
    if len(drawn) < 2 or np.ptp(drawn) < 1e-12:
        return wilson(float(value), users, level)
    # The smallest group has the largest uncertainty.
    found = percentiles(drawn, max(2, min(len(group) for group in members)), level)
    bias = float(drawn.mean() - value)
    return Interval(*(float(np.clip(end - bias, 0, 1)) for end in (found.low, found.high)))


def in_chunks(work: Callable[[int], npt.NDArray[np.float64]], rows: int, questions: int) -> npt.NDArray[np.float64]:
    """Compute a table in chunks of rows, so that memory is bounded for any number of questions."""
    step = max(1, _CELLS // max(1, questions))
    return np.concatenate([work(min(step, rows - start)) for start in range(0, rows, step)])


def percentiles(drawn: npt.NDArray[np.float64], users: int, level: float) -> Interval:
    """Widened for few users as proposed by Hesterberg (2015, "What teachers should know about the bootstrap", 5)."""
    from scipy import stats  # takes long to import, and games that only declare their metrics do not need it

    tail = stats.norm.cdf(np.sqrt(users / (users - 1)) * stats.t.ppf((1 - level) / 2, users - 1))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high))


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
