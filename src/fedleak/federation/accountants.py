"""Accountants of differential privacy: the epsilon of a mechanism that is applied several times."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from fedleak.errors import PlanError
from fedleak.lazy import scipy

__all__ = [
    "EXACT",
    "PLD",
    "RDP",
    "Bound",
    "default_delta",
    "gaussian",
    "poisson",
    "poisson_over_time",
    "worst_poisson",
    "without_replacement",
]

# Whole orders only: the sums for others converge slowly, or not at all, where batches are large.
_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)

# PLD accounting rounds in its Fourier transforms, so epsilon is too small for tiny deltas: at 1e-13 it falls below
# the exact value of the Gaussian mechanism over 10,000 steps.
_LEAST_DELTA = 1e-10
_SLACK = 5e-4  # how much PLD accounting may be too large, as a share of epsilon
_TOO_LARGE = 1e4  # an epsilon that is not worth a tighter bound

EXACT = "exact for the Gaussian mechanism (Balle and Wang, 2018)"
PLD = "privacy loss distributions (PLD)"
RDP = "Renyi differential privacy (RDP), an upper bound"


class Bound(NamedTuple):
    """An upper bound on epsilon, and the accountant that gave it."""

    epsilon: float
    accountant: str


def default_delta(count: int) -> float:
    """A tenth of 1/count: with delta = 1/count, publishing the data of one user or record would be allowed.

    This is also the largest delta that is called small. The customary count^-1.1 is below it only from 10^10 on.

    >>> default_delta(80)
    0.00125
    """
    return 1 / (10 * max(1, count))


def gaussian(multiplier: float, steps: int, delta: float) -> Bound:
    """Epsilon of the Gaussian mechanism, exactly (Balle and Wang, 2018, theorem 8).

    `multiplier` is the noise's standard deviation in units of the sensitivity. Several steps are together one with
    noise smaller by the square root of their number (Dong et al., 2022, corollary 2).
    """
    _require_valid(1.0, multiplier, steps, delta)
    if steps == 0:
        return Bound(0.0, EXACT)
    mu = math.sqrt(steps) / multiplier

    def leak(epsilon: float) -> float:
        # In logarithms: e^epsilon alone overflows where there is next to no noise.
        inside = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
        return math.exp(inside) - math.exp(epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))

    # Concentrated differential privacy gives an upper end (Bun and Steinke, 2016, proposition 1.3).
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if leak(0.0) <= delta:
        return Bound(0.0, EXACT)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if leak(middle) > delta else (low, middle)
    return Bound(high, EXACT)


@lru_cache(maxsize=1024)
def poisson(rate: float, multiplier: float, steps: int, delta: float) -> Bound:
    """Epsilon where each step sees each record with a probability, independently, and one record is left out.

    The least of three upper bounds by the dp-accounting library and in closed form: privacy loss distributions (Koskela
    et al., 2020; Doroshenko et al., 2022), with losses rounded up so that epsilon is never too small; Renyi accounting
    (Mironov et al., 2019); and no sampling at all, because sampling never harms.
    """
    loose = _poisson_loose(rate, multiplier, steps, delta)
    if rate == 1 or not steps or delta < _LEAST_DELTA or loose.epsilon > _TOO_LARGE:
        return loose
    library = _library()
    # Losses are rounded up to a grid. Over all steps that adds about its width squared, each time.
    grid = max(1e-4, math.sqrt(_SLACK * loose.epsilon / steps))
    accountant = importlib.import_module("dp_accounting.pld").PLDAccountant(
        library.NeighboringRelation.ADD_OR_REMOVE_ONE, grid
    )
    accountant.compose(library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(multiplier)), steps)
    return min(loose, Bound(float(accountant.get_epsilon(delta)), PLD))


def poisson_over_time(rate: float, multiplier: float, steps: Sequence[int], delta: float) -> list[float]:
    """Epsilon after each of these numbers of steps, by Renyi accounting: fast, and never below `poisson`."""
    if rate == 1:
        return [gaussian(multiplier, count, delta).epsilon for count in steps]
    orders, once = _renyi_once(rate, multiplier)
    compute = importlib.import_module("dp_accounting.rdp").compute_epsilon
    return [
        min(
            gaussian(multiplier, count, delta).epsilon,
            float(compute(orders, [value * count for value in once], delta)[0]),
        )
        if count
        else 0.0
        for count in steps
    ]


@lru_cache(maxsize=256)
def _renyi_once(rate: float, multiplier: float) -> tuple[list[float], list[float]]:
    """The orders, and the Renyi divergence of one step at each; those of several steps add up."""
    _require_valid(rate, multiplier, 1, 0.5)
    library = _library()
    relation = library.NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = importlib.import_module("dp_accounting.rdp").RdpAccountant(_ORDERS, relation)
    accountant.compose(library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(multiplier)), 1)
    return [float(order) for order in accountant.orders], [float(value) for value in accountant.rdp]


def worst_poisson(cases: Iterable[tuple[float, int]], multiplier: float, delta: float) -> tuple[Bound, int]:
    """The largest epsilon among pairs of a rate and a number of steps, and the position of that pair.

    Renyi accounting is fast and never below, so only pairs that it does not rule out get a tight bound.
    """
    loose = [
        (_poisson_loose(rate, multiplier, steps, delta), place, rate, steps)
        for place, (rate, steps) in enumerate(cases)
    ]
    worst = (Bound(0.0, EXACT), 0)
    for bound, place, rate, steps in sorted(loose, reverse=True):
        if bound.epsilon < worst[0].epsilon:
            break
        worst = max(worst, (poisson(rate, multiplier, steps, delta), place))
    return worst


def without_replacement(selected: int, count: int, multiplier: float, steps: int, delta: float) -> Bound:
    """Epsilon where each step sees a fixed number of all, drawn at random (Wang, Balle and Kasiviswanathan, 2019).

    One exchanged for another; `multiplier` is in units of what that changes. PLD accounting has no such sampling.
    """
    exact = gaussian(multiplier, steps, delta)
    if not 0 < selected <= count:
        raise PlanError(f"cannot select {selected} of {count} clients; select at least one and at most all")
    if selected == count or not steps:
        return exact
    library = _library()
    event = library.SampledWithoutReplacementDpEvent(count, selected, library.GaussianDpEvent(multiplier))
    return min(exact, _renyi(library, library.NeighboringRelation.REPLACE_ONE, event, steps, delta))


@lru_cache(maxsize=4096)
def _poisson_loose(rate: float, multiplier: float, steps: int, delta: float) -> Bound:
    """By Renyi accounting or without sampling, whichever is lower."""
    _require_valid(rate, multiplier, steps, delta)
    exact = gaussian(multiplier, steps, delta)
    if rate == 1 or not steps:
        return exact
    library = _library()
    event = library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(multiplier))
    return min(exact, _renyi(library, library.NeighboringRelation.ADD_OR_REMOVE_ONE, event, steps, delta))


def _renyi(library: Any, relation: Any, event: Any, steps: int, delta: float) -> Bound:
    accountant = importlib.import_module("dp_accounting.rdp").RdpAccountant(_ORDERS, relation)
    accountant.compose(event, steps)
    return Bound(float(accountant.get_epsilon(delta)), RDP)


def _require_valid(rate: float, multiplier: float, steps: int, delta: float) -> None:
    """Reject what would come out as a wrong epsilon instead of an error: NaN compares as neither more nor less."""
    if not (0 < rate <= 1 and 0 < multiplier < math.inf and steps >= 0 and 0 < delta < 1):
        raise PlanError(
            f"no epsilon for sampling rate {rate:g}, noise multiplier {multiplier:g}, {steps} steps and delta "
            f"{delta:g}; needed are a rate above 0 and at most 1, finite noise above 0, and delta between 0 and 1"
        )


def _library() -> Any:
    try:
        return importlib.import_module("dp_accounting")
    except ImportError:
        raise PlanError(
            "stating the epsilon of this defence needs the dp-accounting library; pip install 'fedleak[privacy]'"
        ) from None
