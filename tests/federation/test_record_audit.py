"""Canary records of one training contradict a record-level epsilon that is too small, and no honest one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedleak.core import FloatArray
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation import record_audit
from fedleak.federation.model import Tensors
from fedleak.federation.privacy import Training
from fedleak.federation.promises import promises
from fedleak.federation.record_audit import audit_records, p_value, shown_by_guesses
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.report.tradeoff import promise as described_promise

PLAN = FederationPlan(rounds=10, batch=10)
TRAINING = Training(
    rounds=10, most=10, clients=40, selected=8, fresh=True, equal=False, epochs=1, batch=10, sizes=(50,) * 40
)


@dataclass(frozen=True, kw_only=True)
class Quieter(DpSgd):
    """Adds a part of the noise that it states."""

    share: float

    def add_noise(self, sums: Tensors, rngs: object) -> Tensors:
        return DpSgd(noise=self.noise * self.share, clip=self.clip).add_noise(sums, rngs)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Unclipped(DpSgd):
    """Forgets to clip."""

    def shorten(self, norms: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(norms)


def test_the_p_value_is_that_of_the_theorem() -> None:
    # Without delta: 3 of 3 right guesses about randomised response with epsilon ln 3, each right 3 times of 4.
    assert p_value(10, 3, 3, math.log(3), 0.0) == pytest.approx((3 / 4) ** 3)
    # With delta: at most 2 m delta times the largest mean of the probabilities of 1, 2, ... guesses fewer.
    fewer = [27 / 64, (27 + 9) / 64 / 2, (27 + 9 + 1) / 64 / 3]
    assert p_value(10, 3, 3, math.log(3), 0.01) == pytest.approx(27 / 64 + 20 * 0.01 * max(fewer))
    assert p_value(10, 3, 0, 1.0, 0.01) == 1.0


def test_guesses_show_nothing_of_noise_and_much_of_a_plain_answer() -> None:
    rng = np.random.default_rng(0)
    coins = rng.random(2000) < 0.5
    noise: FloatArray = rng.standard_normal(2000)  # type: ignore[assignment]
    assert shown_by_guesses(noise.astype(np.float64), coins, 1e-5) == 0.0
    assert shown_by_guesses(np.where(coins, 1.0, 0.0), coins, 1e-5) > 3.5


@pytest.mark.parametrize("noise", [1.0, 2.0])
def test_the_bound_is_below_an_honest_epsilon_and_says_something(noise: float) -> None:
    found = audit_records([DpSgd(noise=noise)], 0, TRAINING, PLAN, 0)
    assert found is not None and not found.contradicted
    assert 0.3 * found.stated < found.shown <= found.stated < found.most


@pytest.mark.parametrize(("noise", "share"), [(2.0, 0.5), (2.0, 0.25), (1.0, 0.25)])
def test_noise_that_is_too_small_is_found_out(noise: float, share: float) -> None:
    found = audit_records([Quieter(noise=noise, share=share)], 0, TRAINING, PLAN, 0)
    assert found is not None and found.contradicted


def test_a_gradient_that_is_not_clipped_is_found_out() -> None:
    found = audit_records([Unclipped(noise=4.0)], 0, TRAINING, PLAN, 0)
    assert found is not None and found.contradicted and found.shown == found.most


def test_a_promise_that_records_break_is_contradicted_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedleak.federation.promises.put_to_the_test", lambda *_: None)
    [promise] = promises([Quieter(noise=2.0, share=0.25)], PLAN, 40, [50] * 40, 0, canaries=True)
    assert promise.contradicted and promise.one_run is not None
    assert "CONTRADICTED: 20000 canary records in one training" in described_promise(promise)
    [honest] = promises([DpSgd(noise=2.0)], PLAN, 40, [50] * 40, 0, canaries=True)
    assert not honest.contradicted and "canary records in one training" in described_promise(honest)


def test_what_is_stated_for_clients_and_code_of_ones_own_are_not_tested() -> None:
    assert audit_records([DpFedAvg(noise=2.0, clip=1.0)], 0, replace(TRAINING, equal=True), PLAN, 0) is None
    assert audit_records([DpSgd(noise=2.0)], 0, TRAINING, replace(PLAN, train="mine:train"), 0) is None


def _contradicted(runs: int) -> int:
    plan, training = replace(PLAN, batch=5), replace(TRAINING, batch=5, sizes=(20,) * 40)
    found = [audit_records([DpSgd(noise=1.5)], 0, training, plan, 100 + seed) for seed in range(runs)]
    return sum(one is not None and one.contradicted for one in found)


def test_honest_noise_is_hardly_ever_contradicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_audit, "_CANARIES", 1000)
    assert _contradicted(10) <= 1


@pytest.mark.slow
def test_honest_noise_is_contradicted_in_at_most_one_run_of_twenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_audit, "_CANARIES", 2000)
    assert _contradicted(200) <= 10
    # Guesses about the exact Gaussian mechanism, where the theorem's delta counts most.
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(200):
        coins = rng.random(2000) < 0.5
        wrong += shown_by_guesses(coins + 2.0 * rng.standard_normal(2000), coins, 1e-3) > 1.68
    assert wrong <= 10
