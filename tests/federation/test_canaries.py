"""Canaries find defences that keep less than they promise, and leave honest ones alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from fedleak.core import Params
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation.canaries import put_to_the_test, shown
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Tensors
from fedleak.federation.privacy import Training
from fedleak.plan.plan import FederationPlan

PLAN = FederationPlan(batch=10)
TRAINING = Training(
    rounds=10, most=5, clients=40, selected=4, fresh=True, equal=True, epochs=1, batch=10, sizes=(30, 80)
)


@dataclass(frozen=True, kw_only=True)
class Unclipped(DpFedAvg):
    """Adds its noise to whatever it is given."""

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        sigma = np.float32(self.noise * self.clip)
        return {k: v + sigma * rng.standard_normal(v.shape, dtype=np.float32) for k, v in update.items()}


@dataclass(frozen=True, kw_only=True)
class Quiet(DpSgd):
    """Adds a fifth of the noise that it states."""

    def add_noise(self, sums: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        return DpSgd(noise=self.noise / 5, clip=self.clip).add_noise(sums, rngs)


@dataclass(frozen=True, kw_only=True)
class Unbounded(DpSgd):
    """Clips no example."""

    def shorten(self, norms: torch.Tensor) -> torch.Tensor:
        return torch.ones_like(norms)


@pytest.mark.parametrize(
    "defence",
    [DpFedAvg(noise=2.0, clip=1.0), DpFedAvg(noise=4.0, clip=1.0, where="server"), DpSgd(noise=1.0), DpSgd(noise=2.0)],
)
def test_a_defence_that_keeps_its_promise_is_not_contradicted(defence: Defence) -> None:
    found = put_to_the_test([defence], 0, TRAINING, PLAN, 0)
    assert found is not None and 0 <= found.shown <= found.claimed
    assert not found.contradicted


@pytest.mark.parametrize("defence", [Unclipped(noise=4.0, clip=1.0), Quiet(noise=2.0), Unbounded(noise=2.0)])
def test_a_defence_that_breaks_its_promise_is_found_out(defence: Defence) -> None:
    found = put_to_the_test([defence], 0, TRAINING, PLAN, 0)
    assert found is not None and found.contradicted


def test_an_epsilon_beyond_what_canaries_can_show_is_not_tested() -> None:
    found = put_to_the_test([DpFedAvg(noise=0.3)], 0, TRAINING, PLAN, 0)
    assert found is not None
    assert found.shown <= found.most < 5 < found.claimed
    tested = put_to_the_test([DpFedAvg(noise=4.0)], 0, TRAINING, PLAN, 0)
    assert tested is not None and tested.claimed < tested.most


def test_the_number_of_examples_is_public_and_no_leak() -> None:
    # A client with less than a batch divides by the number of its examples: twice the noise with one record fewer.
    training = replace(TRAINING, sizes=(2,))
    found = put_to_the_test([DpSgd(noise=20.0)], 0, training, PLAN, 0)
    assert found is not None and found.claimed < 0.2
    assert not found.contradicted


def test_what_promises_nothing_is_not_tested() -> None:
    assert put_to_the_test([Clip(bound=1.0)], 0, TRAINING, PLAN, 0) is None


def test_the_bound_is_below_the_truth_and_near_it() -> None:
    # Randomised response with epsilon 2: the answer is true with probability e^2 / (1 + e^2).
    truth, rng = 2.0, np.random.default_rng(0)
    honest = 1 / (1 + np.exp(-truth))
    found = []
    for _ in range(50):
        inside = (rng.random(4000) < honest).astype(np.float64)
        outside = (rng.random(4000) >= honest).astype(np.float64)
        found.append(shown(inside + 1e-6 * rng.random(4000), outside + 1e-6 * rng.random(4000), 0.0))
    assert np.mean(np.array(found) > truth) <= 0.1  # 95% confidence
    assert np.mean(found) > 1.6


def test_what_is_the_same_with_and_without_shows_nothing() -> None:
    rng = np.random.default_rng(0)
    found = [shown(rng.standard_normal(500), rng.standard_normal(500), 1e-3) for _ in range(50)]
    assert np.mean(np.array(found) > 0) <= 0.1
