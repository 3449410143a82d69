"""Intervals that resample people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

__all__ = ["Interval", "by_user", "wilson"]


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
    """Bootstrap the weighted mean of one value per user, resampling users rather than claims.

    Claims about one user rise and fall together; treating them as independent would make the interval too narrow.
    Percentiles are widened for few users as proposed by Hesterberg (2015, "What teachers should know about the
    bootstrap", section 5). Where all users agree, resampling shows no uncertainty at all, which is not believable
    for a handful of people: Wilson's interval for as many trials as there are users is given instead.
    """
    kept = weights > 0
    values, weights = values[kept], weights[kept]
    n = len(values)
    if n < 2 or np.ptp(values) == 0:
        return wilson(float(values[0]) if n else 0.0, n, level)
    draws = rng.integers(n, size=(resamples, n))
    means = (values[draws] * weights[draws]).sum(axis=1) / weights[draws].sum(axis=1)
    tail = stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf((1 - level) / 2, n - 1))
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))


def wilson(rate: float, n: int, level: float) -> Interval:
    """Wilson's score interval of a rate (Wilson, 1927); nothing is known from no trial.

    >>> round(wilson(1.0, 30, 0.95).low, 3)
    0.886
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = float(stats.norm.ppf((1 + level) / 2))
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # The ends are clamped to the rate itself: at 0 and 1 they equal it but for rounding.
    return Interval(min(rate, max(0.0, float(centre - half))), max(rate, min(1.0, float(centre + half))))
