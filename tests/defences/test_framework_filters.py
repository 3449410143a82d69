"""The filters of Flower and NVFlare, worked out by hand; equality with their own code is an integration test."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedleak.core import Params
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.flower_fixed_clipping import FlowerClientSideFixedClipping, FlowerServerSideFixedClipping
from fedleak.defences.flower_local_dp import FlowerLocalDp
from fedleak.defences.nvflare_exclude_vars import NvflareExcludeVars
from fedleak.defences.nvflare_percentile import NvflarePercentilePrivacy
from fedleak.defences.nvflare_svt import NvflareSvtPrivacy
from fedleak.defences.secure_aggregation import SecureAggregation
from fedleak.errors import PlanError, TrainingError
from fedleak.federation.accountants import gaussian
from fedleak.federation.canary_run import shown_over_run
from fedleak.federation.privacy import Training
from fedleak.plan.plan import FederationPlan
from fedleak.plan.together import check_together

TRAINING = Training(rounds=6, most=6, clients=40, selected=8, fresh=True, equal=True, epochs=1, batch=10, sizes=(30,))
PLAN = FederationPlan(rounds=6, weighting="equal")
SHARES = np.full(4, 0.25, dtype=np.float32)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def update(**layers: list[float]) -> Params:
    return {name: np.array(values, dtype=np.float32) for name, values in layers.items()}


def test_client_side_clipping_shortens_the_update_and_noises_the_mean() -> None:
    defence = FlowerClientSideFixedClipping(noise_multiplier=2.0, clipping_norm=1.0)
    sent = defence.on_update(update(a=[3.0, 0.0], b=[4.0]), rng())
    np.testing.assert_allclose(np.concatenate([sent["a"], sent["b"]]), [0.6, 0.0, 0.8], rtol=1e-5)
    noised = defence.on_aggregate({"a": np.zeros(20_000, dtype=np.float32)}, SHARES, rng())
    assert float(np.std(noised["a"])) == pytest.approx(2.0 * 1.0 / 4, rel=0.03)
    # Flower divides by what it is told, not by how many came.
    told = replace(defence, num_sampled_clients=8)
    noised = told.on_aggregate({"a": np.zeros(20_000, dtype=np.float32)}, SHARES, rng())
    assert float(np.std(noised["a"])) == pytest.approx(2.0 * 1.0 / 8, rel=0.03)


def test_server_side_clipping_shows_the_server_what_it_clips() -> None:
    defence = FlowerServerSideFixedClipping(noise_multiplier=2.0, clipping_norm=1.0)
    rows: Params = {"a": np.array([[10.0, 0.0], [0.0, 0.5]], dtype=np.float32)}
    added = defence.on_aggregation(rows, np.array([0.5, 0.5], dtype=np.float32), rng())
    assert added.seen is rows and added.arrived.all()
    np.testing.assert_allclose(added.aggregate["a"], [0.5, 0.25], rtol=1e-5)
    # Buffers are averaged as they are, and take no part in the norm.
    with_buffers: Params = {**rows, "a:buffers": np.array([[100.0], [0.0]], dtype=np.float32)}
    added = defence.on_aggregation(with_buffers, np.array([0.5, 0.5], dtype=np.float32), rng())
    np.testing.assert_allclose(added.aggregate["a"], [0.5, 0.25], rtol=1e-5)
    assert added.aggregate["a:buffers"][0] == 50.0


@pytest.mark.parametrize("cls", [FlowerClientSideFixedClipping, FlowerServerSideFixedClipping])
def test_fixed_clipping_states_what_dp_fedavg_states_and_nothing_with_unequal_weights(
    cls: type[FlowerClientSideFixedClipping | FlowerServerSideFixedClipping],
) -> None:
    defence = cls(noise_multiplier=4.0, clipping_norm=0.5, delta=1e-3)
    stated = defence.privacy(TRAINING)
    same = DpFedAvg(noise=4.0, clip=0.5, where="server", delta=1e-3).privacy(TRAINING)
    assert (stated.epsilon, stated.hidden_epsilon, stated.seen) == (same.epsilon, same.hidden_epsilon, "model")
    assert stated.defence == defence.name
    assert "weighs updates" in defence.privacy(replace(TRAINING, equal=False)).how
    # Told of twice as many clients as there are, Flower adds half the noise: so it is stated.
    halved = replace(defence, num_sampled_clients=16).privacy(TRAINING)
    assert halved.epsilon == gaussian(4.0 / 2 / 2, 6, 1e-3).epsilon


def test_canaries_find_as_much_as_is_stated_and_no_more() -> None:
    defence = FlowerServerSideFixedClipping(noise_multiplier=4.0, clipping_norm=1.0, delta=1e-3)
    statement = defence.privacy(TRAINING)
    found = shown_over_run([defence], statement, TRAINING, PLAN, 0)
    assert found is not None and statement.epsilon is not None
    assert 0.4 * statement.epsilon < found <= statement.epsilon


def test_secure_aggregation_fits_clipping_on_the_client_only() -> None:
    check_together(
        [FlowerClientSideFixedClipping(noise_multiplier=1.0, clipping_norm=1.0), SecureAggregation()], "plan"
    )
    with pytest.raises(PlanError, match="own way"):
        check_together(
            [FlowerServerSideFixedClipping(noise_multiplier=1.0, clipping_norm=1.0), SecureAggregation()], "plan"
        )


def test_local_dp_adds_the_noise_of_the_classical_formula() -> None:
    defence = FlowerLocalDp(clipping_norm=1.0, sensitivity=2.0, epsilon=0.5, delta=1e-3)
    sigma = 2.0 * math.sqrt(2 * math.log(1.25 / 1e-3)) / 0.5
    assert defence.sigma == pytest.approx(sigma)
    sent = defence.on_update({"a": np.zeros(20_000, dtype=np.float32)}, rng())
    assert float(np.std(sent["a"])) == pytest.approx(sigma, rel=0.03)
    # With twice the clipping norm as its sensitivity and an epsilon below 1, the formula holds with room to spare.
    stated = defence.privacy(TRAINING)
    assert stated.per_round == gaussian(sigma / 2, 1, 1e-3).epsilon < 0.5 and stated.delta == 1e-3


def test_canaries_contradict_the_epsilon_that_local_dp_is_given_with_the_clip_as_sensitivity() -> None:
    # As in Flower's tutorials: the sensitivity is the clipping norm, and epsilon above 1.
    defence = FlowerLocalDp(clipping_norm=1.0, sensitivity=1.0, epsilon=10.0, delta=1e-5)
    once = replace(TRAINING, rounds=1, most=1)
    statement = defence.privacy(once)
    found = shown_over_run([defence], statement, once, replace(PLAN, rounds=1), 0)
    assert found is not None and statement.epsilon is not None
    assert 10.0 < found <= statement.epsilon


def test_percentile_privacy_drops_small_changes_and_bounds_large_ones() -> None:
    defence = NvflarePercentilePrivacy(percentile=50.0, gamma=0.3)
    sent = defence.on_update(update(a=[0.1, -0.2, 0.4], b=[-0.9, 0.25]), rng())
    # The median of .1 .2 .25 .4 .9 is .25, which is kept.
    np.testing.assert_allclose(sent["a"], [0.0, 0.0, 0.3], rtol=1e-6)
    np.testing.assert_allclose(sent["b"], [-0.3, 0.25], rtol=1e-6)
    # The bound is for each local step.
    sent = replace(defence, steps=2).on_update(update(a=[0.1, -0.2, 0.4], b=[-0.9, 0.25]), rng())
    np.testing.assert_allclose(sent["b"], [-0.6, 0.25], rtol=1e-6)
    assert "no noise" in defence.privacy(TRAINING).how


@pytest.mark.parametrize("replacing", [True, False])
def test_svt_sends_the_share_that_it_is_told_with_noise_far_above_the_bound(replacing: bool) -> None:
    defence = NvflareSvtPrivacy(replace=replacing)
    sent = defence.on_update(update(a=[1.0] * 600, b=[-1.0] * 400), rng())
    values = np.concatenate([sent["a"], sent["b"]])
    kept = values[values != 0]
    assert len(kept) == 100 if not replacing else 60 < len(kept) <= 100
    # Laplace with scale 2 gamma / noise_var, on values of at most gamma.
    assert float(np.mean(np.abs(kept))) == pytest.approx(2 * 1e-5 / 0.1, rel=0.4)
    # With next to no noise, the values above the threshold are sent, bounded.
    loud = NvflareSvtPrivacy(fraction=0.5, epsilon=1e9, noise_var=1e9, gamma=0.5, tau=0.2, replace=False)
    sent = loud.on_update(update(a=[0.3, 0.1], b=[0.0, -0.9]), rng())
    np.testing.assert_allclose(sent["a"], [0.3, 0.0], atol=1e-6)
    np.testing.assert_allclose(sent["b"], [0.0, -0.5], atol=1e-6)
    assert "goes on" in defence.privacy(TRAINING).how


def test_excluded_layers_are_zeros_and_a_name_that_matches_nothing_is_an_error() -> None:
    given = update(fc1=[1.0, 2.0], out=[3.0])
    for which in ("^fc", ("fc1",)):
        sent = NvflareExcludeVars(exclude_vars=which).on_update(given, rng())
        assert not sent["fc1"].any() and sent["out"][0] == 3.0
    with pytest.raises(TrainingError, match="the layers are fc1, out"):
        NvflareExcludeVars(exclude_vars="conv").on_update(given, rng())
