"""What is sent: shortened, thinned out, rounded, noised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedleak.core import Params
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.quantise import Quantise
from fedleak.defences.sparsify import Sparsify
from fedleak.federation.hooks import Defence

SCALES = st.floats(1e-4, 1e4)


def update(seed: int, scale: float = 1.0, sizes: tuple[int, ...] = (40, 7)) -> Params:
    rng = np.random.default_rng(seed)
    return {f"l{n}": (scale * rng.normal(size=size)).astype(np.float32) for n, size in enumerate(sizes)}


def flat(values: Params) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.concatenate([part.astype(np.float64) for part in values.values()])


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(st.integers(0, 10**6), SCALES, SCALES)
def test_a_clipped_update_is_within_the_bound_and_points_the_same_way(seed: int, scale: float, bound: float) -> None:
    before = update(seed, scale)
    after = Clip(bound=bound).on_update(before, rng())
    length, sent = np.linalg.norm(flat(before)), np.linalg.norm(flat(after))
    assert sent <= bound
    assert sent == pytest.approx(min(length, bound), rel=1e-5)
    assert flat(before) @ flat(after) == pytest.approx(length * sent, rel=1e-5)
    assert all(part.dtype == np.float32 for part in after.values())


@given(st.integers(0, 10**6), st.floats(0.01, 1))
def test_the_largest_changes_are_sent_as_they_are_and_nothing_else(seed: int, share: float) -> None:
    before = update(seed)
    after = flat(Sparsify(share=share).on_update(before, rng()))
    kept = after != 0
    assert kept.sum() == max(1, round(share * 47))
    np.testing.assert_array_equal(after[kept], flat(before)[kept])
    if not kept.all():
        assert np.abs(flat(before)[kept]).min() >= np.abs(flat(before)[~kept]).max()


def test_of_equal_changes_as_many_are_sent_as_was_asked_for() -> None:
    sent = Sparsify(share=0.5).on_update({"a": np.ones(10, dtype=np.float32)}, rng())
    assert sent["a"].sum() == 5


@given(st.integers(0, 10**6), st.integers(1, 8), SCALES)
def test_a_rounded_update_has_few_levels_and_lies_between_the_nearest_two(seed: int, bits: int, scale: float) -> None:
    before = update(seed, scale)
    after = Quantise(bits=bits).on_update(before, rng())
    for layer, values in before.items():
        assert len(np.unique(after[layer])) <= 2**bits
        step = (values.max() - values.min()) / (2**bits - 1)
        assert np.abs(after[layer] - values).max() <= step * (1 + 1e-4)


def test_rounding_is_right_on_average() -> None:
    before = update(1)
    rounded = [flat(Quantise(bits=2).on_update(before, np.random.default_rng(n))) for n in range(4000)]
    step = max((part.max() - part.min()) / 3 for part in before.values())
    assert np.abs(np.mean(rounded, axis=0) - flat(before)).max() < 5 * step / 2 / np.sqrt(4000)


def test_a_constant_layer_is_rounded_to_itself() -> None:
    sent = Quantise(bits=1).on_update({"a": np.full(5, 0.3, dtype=np.float32)}, rng())
    np.testing.assert_array_equal(sent["a"], np.full(5, 0.3, dtype=np.float32))


@pytest.mark.parametrize("scale", [1e-3, 1e3], ids=["short", "long"])
def test_local_noise_is_measured_by_the_clip_whatever_the_update(scale: float) -> None:
    before = update(0, scale, sizes=(3000, 3000))
    sent = DpFedAvg(noise=0.5, clip=2.0).on_update(before, rng())
    bounded = Clip(bound=2.0).on_update(before, rng())
    assert np.std(flat(sent) - flat(bounded)) == pytest.approx(1.0, rel=0.05)


@given(st.integers(1, 30))
@settings(max_examples=20)
def test_server_noise_is_measured_by_what_one_client_can_change_in_the_mean(count: int) -> None:
    defence = DpFedAvg(noise=0.5, clip=2.0, where="server")
    before = update(0, 1e3)
    assert np.linalg.norm(flat(defence.on_update(before, rng()))) <= 2.0
    mean: Params = {"a": np.zeros(20_000, dtype=np.float32)}
    equal = np.full(count, 1 / count, dtype=np.float32)
    assert np.std(defence.on_aggregate(mean, equal, rng())["a"]) == pytest.approx(1.0 / count, rel=0.05)
    heavy = np.array([0.7, 0.3], dtype=np.float32)
    assert np.std(defence.on_aggregate(mean, heavy, rng())["a"]) == pytest.approx(0.7, rel=0.05)


def test_noise_is_added_in_one_place_only() -> None:
    mean, shares = update(0), np.ones(1, dtype=np.float32)
    assert DpFedAvg(noise=1.0).on_aggregate(mean, shares, rng()) is mean
    nobody = DpFedAvg(noise=1.0, where="server").on_aggregate(mean, shares[:0], rng())
    assert nobody is mean


@pytest.mark.parametrize(
    "defence", [Clip(bound=0.1), Sparsify(), Quantise(bits=2), DpFedAvg(noise=1.0)], ids=lambda d: d.name
)
def test_the_update_itself_is_left_alone_and_the_same_generator_sends_the_same(defence: Defence) -> None:
    before = update(3)
    first, again = (defence.on_update(before, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(flat(first), flat(again))
    np.testing.assert_array_equal(flat(before), flat(update(3)))
