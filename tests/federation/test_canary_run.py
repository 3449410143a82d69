"""Canary clients that take part in a whole run contradict an epsilon that is too small, and no honest one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedleak.core import FloatArray, Params
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.defences.dynamic_participation import DynamicParticipation
from fedleak.defences.secure_aggregation import SecureAggregation
from fedleak.federation import canary_run
from fedleak.federation.accountants import gaussian
from fedleak.federation.canary_run import shown_by_signs, shown_over_run
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, Training
from fedleak.federation.promises import promises
from fedleak.plan.plan import FederationPlan
from fedleak.report.tradeoff import promise as described_promise

PLAN = FederationPlan(rounds=6, weighting="equal")
TRAINING = Training(
    rounds=6, most=6, clients=40, selected=8, fresh=True, equal=True, epochs=1, batch=10, sizes=(30, 80)
)


@dataclass(frozen=True, kw_only=True)
class HalfTheNoise(DpFedAvg):
    """Adds half of the noise that it states."""

    def _less(self) -> DpFedAvg:
        return DpFedAvg(noise=self.noise / 2, clip=self.clip, where=self.where)

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return self._less().on_update(update, rng)

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        return self._less().on_aggregate(aggregate, shares, rng)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Canaries for a test: a fifth of those of a check."""
    monkeypatch.setattr(canary_run, "_MOST", 200)


def shown(defences: Sequence[Defence], training: Training = TRAINING, seed: int = 0) -> tuple[float, float]:
    """The lower bound, and the epsilon that the first of the defences states."""
    statement = defences[0].privacy(training)
    found = shown_over_run(defences, statement, training, PLAN, seed)
    assert found is not None and statement.epsilon is not None
    return found, statement.epsilon


@pytest.mark.parametrize("where", ["local", "server"])
@pytest.mark.parametrize("noise", [1.0, 8.0])
def test_the_bound_is_below_an_honest_epsilon_and_near_it(noise: float, where: str) -> None:
    least, stated = shown([DpFedAvg(noise=noise, clip=1.0, where=where)])  # type: ignore[arg-type]
    assert 0.4 * stated < least <= stated


@pytest.mark.parametrize("where", ["local", "server"])
def test_noise_half_as_large_as_stated_is_found_out_every_time(where: str) -> None:
    defence = HalfTheNoise(noise=4.0, clip=1.0, where=where)  # type: ignore[arg-type]
    assert all(least > stated for least, stated in (shown([defence], seed=seed) for seed in range(3)))


def test_a_promise_that_the_whole_run_breaks_is_contradicted() -> None:
    [promise] = promises([HalfTheNoise(noise=4.0, clip=1.0)], PLAN, 40, [30] * 40, 0, canaries=True)
    assert promise.contradicted and promise.shown_over_run is not None and promise.epsilon is not None
    assert promise.shown_over_run > promise.epsilon
    text = described_promise(promise)
    assert "CONTRADICTED: canary clients show at least" in text and "over the whole run" in text


def test_an_update_that_is_not_clipped_is_found_out() -> None:
    statement = DpFedAvg(noise=4.0, clip=1.0).privacy(TRAINING)
    found = shown_over_run([_Unclipped(noise=4.0, clip=1.0)], statement, TRAINING, PLAN, 0)
    assert found is not None and statement.epsilon is not None and found > 100 * statement.epsilon


@dataclass(frozen=True, kw_only=True)
class _Unclipped(DpFedAvg):
    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {name: part + rng.standard_normal(part.shape, dtype=np.float32) for name, part in update.items()}


def test_what_happens_to_a_noised_update_afterwards_is_tested_with_it() -> None:
    least, stated = shown([DpFedAvg(noise=2.0, clip=1.0, where="server"), SecureAggregation()])
    assert 0.5 * stated < least <= stated * 1.001
    # A client that leaves after three rounds has spent no more than three.
    leaving = [DpFedAvg(noise=2.0, clip=1.0), DynamicParticipation(at_most=3)]
    least, stated = shown(leaving, replace(TRAINING, most=3))
    assert 0.6 * stated < least <= stated
    _, six = shown(leaving)
    assert stated < six


def test_honest_mechanisms_are_hardly_ever_contradicted() -> None:
    # Scores as the exact Gaussian mechanism gives them; 95% confidence.
    rng, statement = np.random.default_rng(0), Statement(defence="exact", delta=1e-3, how="")
    wrong = 0
    for _ in range(200):
        signs = rng.choice([-1.0, 1.0], 200)
        wrong += shown_by_signs(signs + 2.0 * rng.standard_normal(200), signs, statement) > gaussian(1, 1, 1e-3).epsilon
    assert wrong <= 0.05 * 200


def test_scores_that_are_not_gaussian_are_only_counted() -> None:
    # Randomised response with epsilon 2: two atoms, which a Gaussian fit would take for something else.
    rng, statement = np.random.default_rng(0), Statement(defence="response", delta=1e-6, how="")
    signs = rng.choice([-1.0, 1.0], 4000)
    kept = np.where(rng.random(4000) < 1 / (1 + np.exp(-2.0)), signs, -signs)
    assert 1.5 < shown_by_signs(kept, signs, statement) <= 2.0


def test_scores_without_any_noise_show_everything_and_useless_ones_nothing() -> None:
    statement, signs = Statement(defence="none", delta=1e-3, how=""), np.resize([1.0, -1.0], 100)
    assert shown_by_signs(signs, signs, statement) == np.inf
    rng = np.random.default_rng(1)
    assert shown_by_signs(rng.standard_normal(100), signs, statement) < 0.5


def test_statements_about_records_and_defences_without_any_are_not_tested() -> None:
    for defence in (DpSgd(noise=1.0), Clip(bound=1.0)):
        assert shown_over_run([defence], defence.privacy(TRAINING), TRAINING, PLAN, 0) is None


def test_the_same_seed_shows_the_same() -> None:
    defence = DpFedAvg(noise=4.0, clip=1.0)
    assert shown([defence], seed=3) == shown([defence], seed=3) != shown([defence], seed=4)
