"""Masks that cancel: the sum is exact, a single message is noise, and drop-outs are recovered from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedleak.core import FloatArray, Params
from fedleak.defences.secure_aggregation import SecureAggregation, decode, encode, expand
from fedleak.errors import TrainingError


def rows(count: int, seed: int, scale: float = 1.0) -> Params:
    rng = np.random.default_rng(seed)
    return {"a": (scale * rng.normal(size=(count, 9))).astype(np.float32), "b": rng.random((count, 2), np.float32)}


def weights(count: int, seed: int) -> FloatArray:
    sizes = np.random.default_rng(seed).integers(1, 50, count)
    return np.asarray(sizes / sizes.sum(), dtype=np.float32)


def fixed_point(values: FloatArray, precision: int) -> list[int]:
    """By whole numbers of any size, which cannot wrap around."""
    return [int(np.trunc(float(v) * 2.0**precision)) for v in values]


@given(
    st.integers(2, 9), st.floats(0, 0.9), st.integers(8, 40), st.sampled_from([1e-6, 1.0, 1e3]), st.integers(0, 10**6)
)
@settings(max_examples=60, deadline=None)
def test_the_sum_is_exact_whoever_drops_out(
    count: int, dropout: float, precision: int, scale: float, seed: int
) -> None:
    updates, shares = rows(count, seed, scale), weights(count, seed)
    added = SecureAggregation(precision=precision, dropout=dropout).on_aggregation(
        updates, shares, np.random.default_rng(seed)
    )
    left = np.flatnonzero(added.arrived)
    if len(left) < 2:
        assert not added.arrived.any()
        assert all((values == 0).all() for values in added.aggregate.values())
        return
    total = sum(fixed_point(shares[left].astype(np.float64), 32)) / 2.0**32
    for name, values in updates.items():
        scaled = values[left].astype(np.float64) * shares[left, None].astype(np.float64)
        whole = [sum(fixed_point(column, precision)) for column in scaled.T]
        wanted = np.array([(number / 2.0**precision) / total for number in whole])
        np.testing.assert_array_equal(added.aggregate[name], wanted.astype(np.float32))
        assert added.seen[name].shape == (len(left), values.shape[1])


def test_the_sum_is_the_mean_that_would_have_been_taken_in_the_open() -> None:
    updates, shares = rows(7, 0), weights(7, 0)
    added = SecureAggregation().on_aggregation(updates, shares, np.random.default_rng(0))
    for name, values in updates.items():
        np.testing.assert_allclose(added.aggregate[name], shares @ values, atol=2e-6)


def test_a_masked_update_is_uniform_whatever_it_hides() -> None:
    size = 20_000
    for value in (0.0, 3.0):
        hidden: Params = {"a": np.full((2, size), value, dtype=np.float32)}
        added = SecureAggregation().on_aggregation(hidden, np.full(2, 0.5, dtype=np.float32), np.random.default_rng(1))
        for row in added.seen["a"]:
            assert stats.kstest(row, "uniform", args=(-1, 2)).pvalue > 1e-3
        # Together, and only together, they give it away.
        assert np.abs(np.corrcoef(*added.seen["a"])).min() < 0.05


def test_what_a_client_hides_does_not_show_in_its_message() -> None:
    """With the same masks two different updates look unrelated to themselves: only the difference would show."""
    rng = np.random.default_rng(0)
    updates: Params = {"a": rng.normal(size=(5, 4000)).astype(np.float32)}
    added = SecureAggregation().on_aggregation(updates, weights(5, 0), np.random.default_rng(2))
    cosines = np.corrcoef(np.concatenate([added.seen["a"], updates["a"]]))[:5, 5:]
    assert np.abs(cosines).max() < 0.08


def test_too_few_left_is_no_sum_at_all() -> None:
    updates, shares = rows(4, 0), weights(4, 0)
    added = SecureAggregation(threshold=5).on_aggregation(updates, shares, np.random.default_rng(0))
    assert not added.arrived.any()
    assert added.seen["a"].shape == (0, 9)
    alone = SecureAggregation().on_aggregation(rows(1, 0), weights(1, 0), np.random.default_rng(0))
    assert not alone.arrived.any()


def test_a_number_that_could_wrap_around_is_refused() -> None:
    updates: Params = {"a": np.full((2, 3), 1e9, dtype=np.float32)}
    with pytest.raises(TrainingError, match=r"too large for precision = 40.*lower precision"):
        SecureAggregation(precision=40).on_aggregation(
            updates, np.full(2, 0.5, dtype=np.float32), np.random.default_rng(0)
        )


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), st.integers(8, 30))
def test_integers_stand_for_numbers_and_never_for_longer_ones(values: list[float], precision: int) -> None:
    back = decode(encode(np.array(values), precision, 2), precision)
    assert np.abs(back - values).max() < 2.0**-precision
    assert (np.abs(back) <= np.abs(values)).all()


def test_a_mask_is_the_same_for_both_of_a_pair_and_another_for_another_seed() -> None:
    np.testing.assert_array_equal(expand(b"a" * 16, 50), expand(b"a" * 16, 50))
    assert (expand(b"a" * 16, 50) != expand(b"b" * 16, 50)).all()
