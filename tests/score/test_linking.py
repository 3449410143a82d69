"""Precision over a gap and matching accuracy: by hand, at chance where nothing is known, and covered."""

from __future__ import annotations

import numpy as np
import pytest
from played_games import users

from fedleak.score.score import AttackResult, Measured, decide
from scored import applies, measure


def link(seed: int, skill: float, count: int = 12, starts: int = 4, gaps: tuple[int, ...] = (1, 5)) -> AttackResult:
    """Everybody takes part in every round; some users are easier to find again than others."""
    rng = np.random.default_rng(seed)
    own = rng.gamma(2.0, 0.5, size=count)
    common = 0.4 * rng.normal(size=count)
    first: list[int] = []
    second: list[int] = []
    gap: list[int] = []
    search: list[int] = []
    for number in range(starts * len(gaps) * count):
        first += [number % count] * count
        second += range(count)
        gap += [gaps[number // count % len(gaps)]] * count
        search += [number] * count
    who = np.array([first, second]).T
    right = (who[:, 0] == who[:, 1]).astype(np.int64)
    claims = skill * (right * own[who[:, 0]] - 0.5) + common[who].sum(axis=1) + rng.normal(size=len(who))
    return AttackResult(
        seed,
        claims[:, None].astype(np.float32),
        right,
        ("same",),
        "link",
        who,
        users(count, f"{seed}/u"),
        gallery=np.array([gap, search]).T,
    )


def found(one: AttackResult, metric: str, permutations: int = 50) -> Measured:
    return measure([one], metric, level=0.95, permutations=permutations)


def by_hand() -> AttackResult:
    """Two users; of the five searches one is in vain, because the client did not come back."""
    rows = [
        # gap, search, from, to, claim
        (1, 0, 0, 0, 2.0),
        (1, 0, 0, 1, 1.0),  # found
        (1, 1, 1, 0, 0.5),
        (1, 1, 1, 1, -0.5),  # taken for the other
        (2, 2, 0, 0, 1.0),
        (2, 2, 0, 1, 1.0),  # undecided: half
        (2, 3, 2, 0, 3.0),
        (2, 3, 2, 1, -3.0),  # not there to be found
        (2, 4, 1, 0, 0.1),
        (2, 4, 1, 1, 0.2),  # found
    ]
    table = np.array(rows)
    who = table[:, 2:4].astype(np.int64)
    right = (who[:, 0] == who[:, 1]).astype(np.int64)
    claims = table[:, 4:].astype(np.float32)
    return AttackResult(0, claims, right, ("same",), "link", who, users(3), gallery=table[:, :2].astype(np.int64))


def test_precision_by_hand() -> None:
    one, two = (found(by_hand(), metric) for metric in ("gap1", "gap2"))
    assert (one.value, one.n, one.chance) == (0.5, 2, 0.5)
    assert (two.value, two.n) == (0.75, 2)


def test_matching_accuracy_by_hand() -> None:
    """Three of the four pairs of one client are said to be that, and five of the six of two clients as well."""
    one = found(by_hand(), "matched")
    assert one.value == pytest.approx((3 / 4 + 1 / 6) / 2)
    assert one.chance == 0.5


@pytest.mark.parametrize("metric", ["gap1", "gap5", "matched", "auc"])
def test_an_attack_that_knows_nothing_is_at_chance_and_one_that_knows_everything_scores_one(metric: str) -> None:
    runs = [found(link(seed, 0.0), metric) for seed in range(40)]
    gap = np.array([run.value - run.chance for run in runs])
    assert abs(gap.mean()) < max(3 * gap.std() / np.sqrt(len(gap)), 0.02)
    assert np.mean([bool(decide(run, level=0.95).leaks) for run in runs]) <= 0.15
    sure = link(1, 0.0)
    all_known = found(
        AttackResult(
            1,
            (2.0 * sure.right - 1)[:, None],
            sure.right,
            ("same",),
            "link",
            sure.who,
            sure.users,
            gallery=sure.gallery,
        ),
        metric,
    )
    assert all_known.value == pytest.approx(1.0) and all_known.chance < all_known.low < 1


@pytest.mark.parametrize("metric", ["gap1", "matched"])
def test_the_interval_covers_what_other_users_would_have_given(metric: str) -> None:
    runs = [found(link(seed, 1.3), metric, permutations=20) for seed in range(120)]
    truth = np.mean([run.value for run in runs])
    assert np.mean([run.low <= truth <= run.high for run in runs]) > 0.88


def test_gaps_that_were_not_asked_about_are_left_out() -> None:
    assert [metric for metric in ("gap1", "gap2", "gap5", "matched", "auc") if applies([link(0, 1.0)], metric)] == [
        "gap1",
        "gap5",
        "matched",
        "auc",
    ]
