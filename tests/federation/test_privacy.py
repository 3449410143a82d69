"""The accountant, against published values, closed forms and another accountant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp
from scipy.stats import norm

from fedleak import registry
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.defences.dynamic_participation import DynamicParticipation
from fedleak.defences.noise import Noise
from fedleak.defences.secure_aggregation import SecureAggregation
from fedleak.federation.accountants import default_delta, gaussian, poisson, without_replacement
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, training
from fedleak.plan.plan import FederationPlan

dp_accounting = pytest.importorskip("dp_accounting", reason="the extra 'privacy' is not installed")

PLAN = FederationPlan(rounds=100, fraction=0.1, batch=10, epochs=1, weighting="equal")
SIZES = (40,) * 79 + (25,)


def statements(
    defences: Sequence[Defence], plan: FederationPlan, clients: int, sizes: Sequence[int], taken: int | None = None
) -> list[Statement]:
    known = training(defences, plan, clients, sizes, taken=taken)
    return [defence.privacy(known) for defence in defences]


def renyi(rate: float, sigma: float, order: int) -> float:
    """Of the sampled Gaussian mechanism at a whole order, by its sum (Mironov, Talwar and Zhang, 2019, section 3.3)."""
    k = np.arange(order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = choose + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) / (2 * sigma**2)
    return float(logsumexp(terms)) / (order - 1)


def published(rate: float, sigma: float, steps: int, delta: float, orders: Sequence[int] = range(2, 256)) -> float:
    """With the conversion of Mironov (2017, proposition 3), which the published values used."""
    return min(steps * renyi(rate, sigma, order) + math.log(1 / delta) / (order - 1) for order in orders)


# Noise multiplier, passes and epsilon at delta 1e-5 of the table in TensorFlow Privacy's MNIST tutorial: 60,000
# examples in batches of 256.
@pytest.mark.parametrize(("sigma", "passes", "epsilon"), [(1.3, 15, 1.19), (1.1, 60, 3.01), (0.7, 45, 7.10)])
def test_published_values_are_met_and_not_exceeded(sigma: float, passes: int, epsilon: float) -> None:
    rate, steps = 256 / 60_000, passes * 60_000 // 256
    assert published(rate, sigma, steps, 1e-5) == pytest.approx(epsilon, rel=0.02)
    # Accounting has been sharpened since.
    assert 0.7 * epsilon < poisson(rate, sigma, steps, 1e-5).epsilon < epsilon


def test_the_moments_accountants_own_example_is_met() -> None:
    # Abadi et al. (2016), section 3.2: q = 0.01, sigma = 4, delta = 1e-5, 10,000 steps: epsilon 1.26.
    assert published(0.01, 4, 10_000, 1e-5) == pytest.approx(1.26, abs=0.01)
    assert 0.9 < poisson(0.01, 4, 10_000, 1e-5).epsilon < 1.26


@given(st.floats(0.3, 20), st.integers(1, 500), st.floats(1e-8, 1e-2))
@settings(max_examples=60)
def test_the_gaussian_mechanism_meets_its_closed_form(sigma: float, steps: int, delta: float) -> None:
    """Balle and Wang (2018), theorem 8: this epsilon gives this delta, not a smaller one."""
    epsilon, mu = gaussian(sigma, steps, delta).epsilon, math.sqrt(steps) / sigma
    found = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    if epsilon == 0:
        assert 2 * norm.cdf(mu / 2) - 1 <= delta
    else:
        assert found == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1), (4.0, 50), (0.8, 3)])
def test_the_gaussian_mechanism_agrees_with_another_accountant(sigma: float, steps: int) -> None:
    pld = pytest.importorskip("dp_accounting.pld").PLDAccountant()
    pld.compose(dp_accounting.GaussianDpEvent(sigma), steps)
    assert gaussian(sigma, steps, 1e-5).epsilon == pytest.approx(pld.get_epsilon(1e-5), rel=2e-3)


@pytest.mark.parametrize("selected", [1, 20, 39])
@pytest.mark.parametrize(("sigma", "steps"), [(0.5, 40), (3.0, 5)])
def test_sampling_never_harms_and_everybody_is_no_sample(sigma: float, steps: int, selected: int) -> None:
    count = 40
    whole = gaussian(sigma, steps, 1e-4).epsilon
    assert without_replacement(selected, count, sigma, steps, 1e-4).epsilon <= whole
    assert without_replacement(count, count, sigma, steps, 1e-4).epsilon == whole
    assert poisson(selected / count, sigma, steps, 1e-4).epsilon <= whole


def test_next_to_no_noise_is_stated_as_what_it_is() -> None:
    assert gaussian(1e-3, 100, 1e-5).epsilon > 1e7


def test_noise_on_the_client_is_accounted_for_by_what_a_client_could_have_sent_instead() -> None:
    [found] = statements([DpFedAvg(noise=2.0)], PLAN, 80, SIZES)
    assert (found.unit, found.delta) == ("client", default_delta(80))
    # From one end of the ball to the other is twice the clip, in each of the rounds.
    assert found.epsilon == gaussian(1.0, 100, default_delta(80)).epsilon
    assert found.per_round == gaussian(1.0, 1, default_delta(80)).epsilon
    assert found.hidden_epsilon is None
    assert "including the server" in found.against


def test_noise_on_the_server_is_amplified_only_while_it_is_secret_who_took_part() -> None:
    [found] = statements([DpFedAvg(noise=2.0, where="server", delta=1e-3)], PLAN, 80, SIZES)
    assert found.hidden_epsilon == without_replacement(8, 80, 1.0, 100, 1e-3).epsilon
    assert found.epsilon is not None
    assert found.hidden_epsilon is not None
    assert found.hidden_epsilon < found.epsilon == gaussian(1.0, 100, 1e-3).epsilon
    assert found.seen == "model"


@pytest.mark.parametrize("where", ["local", "server"])
def test_weights_by_number_of_examples_void_the_noise(where: Literal["local", "server"]) -> None:
    plan = FederationPlan(rounds=100, weighting="examples")
    [found] = statements([DpFedAvg(noise=2.0, where=where)], plan, 80, SIZES)
    assert found.epsilon is found.per_round is found.delta is None
    assert 'weighting = "equal"' in found.how


def test_rounds_that_were_not_taken_part_in_cost_nothing() -> None:
    [before] = statements([DpFedAvg(noise=2.0)], PLAN, 80, SIZES)
    [after] = statements([DpFedAvg(noise=2.0)], PLAN, 80, SIZES, taken=17)
    assert after.epsilon == gaussian(1.0, 17, default_delta(80)).epsilon
    assert before.epsilon is not None
    assert after.epsilon < before.epsilon
    bounded = statements([DpFedAvg(noise=2.0, where="server"), DynamicParticipation(at_most=5)], PLAN, 80, SIZES)
    assert bounded[0].epsilon == gaussian(1.0, 5, default_delta(80)).epsilon
    # Who takes part now depends on who did before, so rounds are no independent draws.
    assert bounded[0].hidden_epsilon is None


def test_dp_sgd_states_the_record_that_is_protected_least() -> None:
    [found] = statements([DpSgd(noise=1.5, delta=1e-4)], PLAN, 80, SIZES, taken=12)
    # 25 examples in batches of 10: three steps a round with rate 0.4; 40 examples: four steps with rate 0.25.
    assert found.epsilon == poisson(0.4, 1.5, 36, 1e-4).epsilon
    assert found.epsilon > poisson(0.25, 1.5, 48, 1e-4).epsilon
    assert found.per_round == poisson(0.4, 1.5, 3, 1e-4).epsilon
    assert found.unit == "record"


def test_a_record_is_left_out_of_a_client_that_keeps_its_number_of_examples() -> None:
    # The server weighs updates by that number, so it cannot be what is protected.
    plan = FederationPlan(rounds=100, weighting="examples")
    [found] = statements([DpSgd(noise=1.5)], plan, 80, SIZES)
    assert found.epsilon is not None
    assert found.adjacency.startswith("zero-out")
    assert "how many examples each client has" in found.public


def test_delta_is_small_by_default_and_a_larger_one_is_called_weak() -> None:
    records = sum(SIZES)
    assert default_delta(80) == 1 / 800
    [usual] = statements([DpSgd(noise=8.0)], PLAN, 80, SIZES, taken=5)
    assert (usual.delta, usual.count, usual.warning) == (1 / (10 * records), records, "")
    [weak] = statements([DpSgd(noise=8.0, delta=1 / records)], PLAN, 80, SIZES, taken=5)
    assert f"not small against 1/n (n = {records} records" in weak.warning
    [limit] = statements([DpFedAvg(noise=90.0, delta=1 / 800)], PLAN, 80, SIZES)
    [above] = statements([DpFedAvg(noise=90.0, delta=1 / 799)], PLAN, 80, SIZES)
    assert not limit.warning
    assert "n = 80 clients" in above.warning


def test_an_epsilon_that_guarantees_nothing_says_so() -> None:
    [found] = statements([DpFedAvg(noise=0.3)], PLAN, 80, SIZES)
    assert "an epsilon above 10 guarantees next to nothing" in found.warning


def test_left_out_updates_are_public() -> None:
    for defence in (DpSgd(noise=1.0), DpFedAvg(noise=1.0), DpFedAvg(noise=1.0, where="server")):
        [stops] = statements([defence], PLAN, 80, SIZES)
        [skips] = statements([defence], replace(PLAN, on_nan="skip"), 80, SIZES)
        assert "not finite" in skips.public
        assert "not finite" not in stops.public


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 20))
@settings(max_examples=8, deadline=None)
def test_no_client_is_protected_less_than_stated(sizes: list[int], batch: int) -> None:
    plan = FederationPlan(rounds=3, fraction=1.0, batch=batch)
    [found] = statements([DpSgd(noise=1.0, delta=1e-4)], plan, len(sizes), sizes)
    assert found.epsilon is not None
    for size in sizes:
        assert found.epsilon >= poisson(min(1.0, batch / size), 1.0, 3 * -(-size // batch), 1e-4).epsilon - 1e-9


@pytest.mark.parametrize("defence", [Noise(sigma=1.0), Clip(), SecureAggregation()])
def test_a_mechanism_without_an_epsilon_says_why_and_gives_none(defence: Clip) -> None:
    [found] = statements([defence], PLAN, 80, SIZES)
    assert found.epsilon is found.per_round is found.delta is None
    assert defence.no_epsilon in found.how


@pytest.mark.parametrize("name", registry.names("defence"))
def test_every_defence_states_an_epsilon_or_a_reason(name: str) -> None:
    cls = registry.load("defence", name)
    strength = {"noise": {"sigma": 1.0}, "embedding-noise": {"sigma": 0.1}, "dp-sgd": {"noise": 1.0}}
    strength["dp-fedavg"] = {"noise": 1.0}
    fixed = {"noise_multiplier": 1.0, "clipping_norm": 1.0}
    strength |= {f"flower-{side}-side-fixed-clipping": fixed for side in ("client", "server")}
    strength["flower-local-dp"] = {"clipping_norm": 1.0, "sensitivity": 2.0, "epsilon": 0.5, "delta": 1e-3}
    named = {"nvflare-exclude-vars": {"exclude_vars": "out"}}
    [found] = statements([cls(**strength.get(name, {}), **named.get(name, {}))], PLAN, 80, SIZES)
    assert (found.epsilon is not None) is name.startswith(("dp-", "flower-"))
    assert found.how
