"""How often an interval holds the truth: few users, several seeds that share users or not, scores near 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.metrics.interval import across_runs, resampled_users

# skill of users (mean, and how much users agree: the two parameters of a beta distribution together), and of runs
SKILLS = {"near 0": (0.03, 10.0), "in the middle": (0.4, 3.0), "near 1": (0.97, 10.0)}


def coverage(users: int, seeds: int, skill: str, *, same: bool, audits: int, runs: float = 0.5) -> float:
    """Share of simulated audits whose interval holds the mean over users and runs, by questions that are hit or not.

    `runs` is the deviation of a run's logit, and 0 if there is one seed, whose variation no interval can know.
    """
    mean, agree = SKILLS[skill]
    rng = np.random.default_rng(users * 100 + seeds)
    spread = runs if seeds > 1 else 0.0

    def logit(size: int) -> np.ndarray:
        drawn = np.clip(rng.beta(mean * agree, (1 - mean) * agree, size=size), 1e-6, 1 - 1e-6)
        return np.asarray(np.log(drawn / (1 - drawn)))

    def share(logits: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-logits)))

    truth = float(share(logit(100_000) + spread * rng.normal(size=100_000)).mean())
    hits = 0
    for _ in range(audits):
        known = np.tile(logit(users), (seeds, 1)) if same else logit(seeds * users).reshape(seeds, users)
        shift = spread * rng.normal(size=(seeds, 1))
        found = rng.binomial(10, share(known + shift)) / 10
        values = found.mean(axis=0) if same else found.ravel()
        ends = resampled_users(values, np.ones(len(values)), rng, resamples=400)
        interval = across_runs(ends, float(found.mean()), found.mean(axis=1).tolist())(0.95)
        hits += interval.low <= truth <= interval.high
    return hits / audits


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_interval_covers_other_users_and_other_runs(seeds: int) -> None:
    assert coverage(20, seeds, "in the middle", same=True, audits=200) >= 0.91


def test_an_interval_of_users_alone_does_not_cover_other_runs() -> None:
    one = [0.1, 0.1, 0.12, 0.08] * 5
    alone = resampled_users(np.asarray(one), np.ones(20), np.random.default_rng(0))
    assert alone(0.95).high < 0.2 < across_runs(alone, 0.1, [0.05, 0.15])(0.95).high
    assert across_runs(alone, 0.1, [0.1])(0.95) == alone(0.95)


@pytest.mark.parametrize("hits", [1, 11])
def test_few_hits_and_few_misses_leave_the_same_doubt(hits: int) -> None:
    def ends(count: int) -> tuple[float, float]:
        found = resampled_users((np.arange(12) < count).astype(float), np.ones(12), np.random.default_rng(0))(0.95)
        return found.low, found.high

    low, high = ends(hits)
    assert ends(12 - hits) == pytest.approx((1 - high, 1 - low))
    assert 0 < low < high < 1


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("skill", SKILLS)
@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
@pytest.mark.parametrize("users", [5, 8, 20, 40])
def test_the_interval_covers_the_truth_everywhere(users: int, seeds: int, skill: str, same: bool) -> None:
    share = coverage(users, seeds, skill, same=same, audits=600)
    print(f"{users} users, {seeds} seed(s), {'same' if same else 'other'} users, {skill}: {share:.3f}")
    assert share >= 0.90


@pytest.mark.slow
@pytest.mark.parametrize("runs", [0.0, 0.25, 0.5, 1.0, 2.0])
def test_two_seeds_cover_little_less_where_runs_vary_more(runs: float) -> None:
    for users in (8, 20):
        for same in (True, False):
            share = coverage(users, 2, "in the middle", same=same, audits=300, runs=runs)
            print(f"{users} users, {'same' if same else 'other'} users, runs deviate by {runs:g}: {share:.3f}")
            assert share >= 0.85
