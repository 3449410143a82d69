"""The accountant of Poisson sampling, against calculations of its own: an integral, and rounding up and down."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from fedleak.errors import PlanError
from fedleak.federation.accountants import EXACT, PLD, RDP, gaussian, poisson, without_replacement, worst_poisson

pytest.importorskip("dp_accounting", reason="the extra 'privacy' is not installed")

Values = NDArray[np.float64]


def place(rate: float, sigma: float, loss: Values) -> Values:
    """Where log(1 - q + q exp((2x - 1) / 2s^2)), which rises with x, has this value."""
    inside = np.maximum((np.exp(loss) - 1 + rate) / rate, 1e-300)
    return np.asarray(sigma**2 * np.log(inside) + 0.5)


def tails(rate: float, sigma: float, x: Values) -> tuple[Values, Values]:
    """How much of the outputs lies above x, with the record and without."""
    without = norm.sf(x / sigma)
    return (1 - rate) * without + rate * norm.sf((x - 1) / sigma), without


def one_step(rate: float, sigma: float, delta: float) -> float:
    """Epsilon of a single step by its definition: the larger of both directions."""

    def leaks(epsilon: float) -> float:
        above = float(place(rate, sigma, np.array(epsilon)))
        with_, without = tails(rate, sigma, np.array(above))
        found = float(with_ - math.exp(epsilon) * without)
        if epsilon < -math.log1p(-rate):  # beyond, no output speaks so much against the record
            below = float(place(rate, sigma, np.array(-epsilon)))
            with_, without = tails(rate, sigma, np.array(below))
            found = max(found, float((1 - without) - math.exp(epsilon) * (1 - with_)))
        return found - delta

    return 0.0 if leaks(0.0) <= 0 else float(brentq(leaks, 0, 200))


def rounded(rate: float, sigma: float, steps: int, delta: float, *, up: bool, grid: float = 2e-4) -> float:
    """Epsilon with the loss of every step rounded up, which is too large, or down, which is too small."""
    found = []
    for sign in (1, -1):  # the record is there, or it is not
        low = math.floor(math.log1p(-rate) / grid) if sign == 1 else math.floor(-12 / sigma**2 / grid)
        high = math.ceil(12 / sigma**2 / grid) if sign == 1 else math.ceil(-math.log1p(-rate) / grid)
        edges = grid * np.arange(low, high + 1, dtype=np.float64)
        with_, without = tails(rate, sigma, place(rate, sigma, sign * edges))
        mass = -np.diff(with_) if sign == 1 else np.diff(without)
        starts = np.arange(low, high) + up
        width = 2 ** math.ceil(math.log2(80 / grid))
        middle = round(steps * float(mass @ starts))  # what comes round the end of the transform is far away
        spectrum = np.fft.rfft(mass, width) ** steps
        composed = np.roll(np.fft.irfft(spectrum, width), steps * starts[0] - middle + width // 2)
        loss = (np.arange(width) - width // 2 + middle) * grid

        def leaks(epsilon: float, composed: Values = composed, loss: Values = loss) -> float:
            over = loss > epsilon
            return float(composed[over] @ -np.expm1(epsilon - loss[over])) - delta

        found.append(0.0 if leaks(0.0) <= 0 else float(brentq(leaks, 0, float(loss[-1]))))
    return max(found)


def renyi(rate: float, sigma: float, steps: int, delta: float) -> float:
    """The sum of Mironov et al. (2019, section 3.3), converted as in Canonne et al. (2020, proposition 12)."""
    best = math.inf
    for order in range(2, 257):
        k = np.arange(order + 1)
        choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
        terms = choose + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) / (2 * sigma**2)
        spent = steps * float(logsumexp(terms)) / (order - 1)
        best = min(best, spent + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1))
    return best


def test_it_is_tight_where_renyi_accounting_is_not() -> None:
    rate, sigma, steps, delta = 0.2, 1.0, 150, 5e-4
    found = poisson(rate, sigma, steps, delta)
    assert found.epsilon == pytest.approx(14.39, abs=0.01)
    assert found.accountant == PLD
    assert renyi(rate, sigma, steps, delta) == pytest.approx(16.18, abs=0.01)


@pytest.mark.parametrize(("rate", "sigma", "steps"), [(0.2, 1.0, 150), (0.05, 1.2, 60), (0.5, 2.0, 20)])
@pytest.mark.parametrize("delta", [5e-4, 1e-6])
def test_it_lies_between_losses_rounded_up_and_down(rate: float, sigma: float, steps: int, delta: float) -> None:
    low, high = (rounded(rate, sigma, steps, delta, up=up) for up in (False, True))
    assert high - low < 0.05
    assert low <= poisson(rate, sigma, steps, delta).epsilon <= high


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.9])
@pytest.mark.parametrize(("sigma", "delta"), [(0.6, 1e-4), (1.0, 1e-8), (3.0, 1e-3)])
def test_one_step_meets_its_definition_and_is_never_below(rate: float, sigma: float, delta: float) -> None:
    exact = one_step(rate, sigma, delta)
    assert exact - 1e-9 <= poisson(rate, sigma, 1, delta).epsilon <= 1.01 * exact + 1e-3


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("sigma", [0.7, 1.5, 4.0])
@pytest.mark.parametrize(("steps", "delta"), [(1, 1e-3), (40, 1e-5), (2000, 1e-5)])
def test_it_is_never_above_renyi_accounting(rate: float, sigma: float, steps: int, delta: float) -> None:
    found = poisson(rate, sigma, steps, delta)
    assert found.epsilon <= renyi(rate, sigma, steps, delta) + 1e-9
    assert found.epsilon >= one_step(rate, sigma, delta) - 1e-9
    assert found.accountant == PLD


def test_what_rounding_would_make_too_small_is_left_to_renyi_accounting() -> None:
    # At rate 1 nearly, the truth is known exactly; PLD accounting gives 7.54 at this delta.
    found = poisson(1 - 1e-12, 100.0, 10_000, 1e-13)
    assert found.accountant != PLD
    assert found.epsilon >= gaussian(100.0, 10_000, 1e-13).epsilon - 1e-6


def test_an_epsilon_in_the_millions_costs_no_memory_and_is_still_a_bound() -> None:
    assert poisson(0.5, 0.01, 1000, 1e-5).epsilon > 1e5
    assert poisson(0.5, 0.5, 1000, 1e-5).epsilon == pytest.approx(878.6, rel=0.005)


def test_sampling_without_replacement_has_renyi_accounting() -> None:
    assert without_replacement(8, 80, 2.0, 100, 1e-4).accountant == RDP
    assert without_replacement(80, 80, 2.0, 100, 1e-4) == gaussian(2.0, 100, 1e-4)
    assert gaussian(2.0, 100, 1e-4).accountant == EXACT


def test_the_worst_of_several_is_the_worst_of_each() -> None:
    cases = [(0.1, 400), (0.4, 36), (0.25, 48), (1.0, 12), (0.02, 3000)]
    each = [poisson(rate, 1.5, steps, 1e-4) for rate, steps in cases]
    assert worst_poisson(cases, 1.5, 1e-4) == (max(each), each.index(max(each)))


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_no_rate_is_no_epsilon(rate: float) -> None:
    with pytest.raises(PlanError, match="no epsilon for sampling rate"):
        poisson(rate, 1.0, 10, 1e-5)


@pytest.mark.parametrize(
    ("multiplier", "steps", "delta"),
    [(0.0, 1, 1e-5), (math.inf, 1, 1e-5), (math.nan, 1, 1e-5), (1.0, -1, 1e-5), (1.0, 1, 0.0), (1.0, 1, 1.0)],
)
def test_bad_inputs_are_refused_by_every_accountant(multiplier: float, steps: int, delta: float) -> None:
    with pytest.raises(PlanError, match="finite noise above 0"):
        gaussian(multiplier, steps, delta)
    with pytest.raises(PlanError, match="finite noise above 0"):
        poisson(0.5, multiplier, steps, delta)
    with pytest.raises(PlanError, match="finite noise above 0"):
        without_replacement(4, 8, multiplier, steps, delta)


@pytest.mark.parametrize("selected", [0, 9])
def test_more_clients_than_there_are_cannot_be_selected(selected: int) -> None:
    with pytest.raises(PlanError, match=f"cannot select {selected} of 8"):
        without_replacement(selected, 8, 1.0, 10, 1e-5)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(PlanError, match=r"pip install 'fedleak\[privacy\]'"):
        poisson(0.123, 1.0, 10, 1e-5)
    assert gaussian(1.0, 10, 1e-5).epsilon > 0  # needs none
