import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.metrics.interval import by_user, wilson


def coverage(users: int, runs: int, level: float, clustered: bool) -> float:
    """Share of simulated audits whose interval holds the true mean hit rate."""
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(runs):
        skill = rng.beta(1.0, 1.5, size=users)  # how identifiable each user is: mean 0.4
        updates = rng.integers(1, 12, size=users)
        found = rng.binomial(updates, skill)
        if clustered:
            interval = by_user(found / updates, updates.astype(float), level, rng, resamples=600)
        else:  # the mistake: every claim on its own
            claims = np.concatenate([np.arange(n) < k for n, k in zip(updates, found, strict=True)]).astype(float)
            interval = by_user(claims, np.ones(len(claims)), level, rng, resamples=600)
        hits += interval.low <= 0.4 <= interval.high
    return hits / runs


@pytest.mark.parametrize("users", [12, 30, 100])
def test_the_interval_covers_the_truth_as_often_as_it_says(users: int) -> None:
    # 600 audits: the binomial error of the measured coverage is under 0.01
    assert coverage(users, 600, 0.95, clustered=True) == pytest.approx(0.95, abs=0.025)


def test_resampling_claims_instead_of_users_would_be_too_narrow() -> None:
    assert coverage(30, 600, 0.95, clustered=False) < 0.85


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(0, 2**32))
def test_the_interval_holds_the_mean_and_stays_between_0_and_1(values: list[float], seed: int) -> None:
    interval = by_user(np.array(values), np.ones(len(values)), 0.95, np.random.default_rng(seed), resamples=200)
    assert 0 <= interval.low <= np.mean(values) + 1e-9
    assert np.mean(values) - 1e-9 <= interval.high <= 1


def test_unanimous_users_still_leave_doubt() -> None:
    interval = by_user(np.ones(30), np.ones(30), 0.95, np.random.default_rng(0))
    assert interval.low == pytest.approx(0.8865, abs=1e-3)
    assert interval.high == 1


def test_users_who_sent_nothing_do_not_narrow_the_interval() -> None:
    values, weights = np.array([0.0, 1.0, 0.5, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])
    with_absent = by_user(values, weights, 0.95, np.random.default_rng(0))
    without = by_user(values[:3], weights[:3], 0.95, np.random.default_rng(0))
    assert with_absent == without


def test_nothing_is_known_without_a_trial() -> None:
    assert (wilson(0.0, 0, 0.95).low, wilson(0.0, 0, 0.95).high) == (0.0, 1.0)


def test_two_secrets_of_twelve_that_were_read_out_are_not_nothing() -> None:
    found = by_user(np.r_[np.ones(2), np.zeros(10)], np.ones(12), 0.95, np.random.default_rng(0))
    assert found.low == pytest.approx(0.047, abs=1e-3)  # Wilson (1927), 2 of 12
    assert 0.3 < found.high < 0.5
