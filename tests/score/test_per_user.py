"""Single users: intervals and the test by simulation, and how each game scores one user by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import played_games
import pytest

from fedleak import registry
from fedleak.core import IntArray
from fedleak.metrics.disaggregation import MeanUpdates
from fedleak.metrics.per_user import EachUser, UserScores, clopper_pearson, quantile_interval, user_tail
from fedleak.metrics.user_scores import EXTRACTED, FITTING, GROUPED, MATCHED, NAMED, RECOVERED
from fedleak.results.users import UserTail
from fedleak.score.score import AttackResult
from scored import measure


def identify(
    rng: np.random.Generator, seed: int, skill: npt.NDArray[np.float64], updates: IntArray, habit: float = 0.0
) -> AttackResult:
    """Each update is named with its sender's skill, otherwise at random; by habit, a client is taken for one user."""
    users = len(skill)
    who = np.repeat(np.arange(users), updates)
    claims = (habit * rng.normal(size=(users, users)))[who] + rng.normal(size=(len(who), users))
    claims[np.arange(len(who)), who] += np.where(rng.random(len(who)) < skill[who], 1e3, 0.0)
    names = played_games.users(users)
    return AttackResult(seed, claims.astype(np.float32), who, names, "identify", who, names)


def tail(played: list[AttackResult], attacks: int = 1) -> UserTail:
    found = user_tail(played, NAMED, level=0.95, permutations=200, attacks=attacks)
    assert found is not None
    return found


@pytest.mark.parametrize(("users", "habit", "seeds"), [(4, 0.0, 2), (6, 0.0, 1), (6, 2.0, 2), (25, 2.0, 1)])
def test_where_nobody_leaks_a_user_is_called_a_leak_in_one_of_twenty_audits_at_most(
    users: int, habit: float, seeds: int
) -> None:
    claimed = 0
    for audit in range(100):
        rng = np.random.default_rng([users, audit])
        updates = rng.integers(1, 12, size=users)
        claimed += tail([identify(rng, s, np.zeros(users), updates, habit) for s in range(seeds)]).leaks
    # With 100 audits the binomial error is 0.022; permutations that leave nobody in place would claim 0.16 of 6 users.
    assert claimed / 100 <= 0.05 + 0.022


def test_one_leaking_user_among_many_is_found_although_the_mean_is_near_chance() -> None:
    for audit in range(10):
        rng = np.random.default_rng(audit)
        skill = np.where(np.arange(40) == 7, 0.9, 0.0)
        played = [identify(rng, s, skill, rng.integers(6, 12, size=40)) for s in range(2)]
        found = tail(played, attacks=3)
        assert found.leaks
        assert found.worst > 0.7 > found.worst_chance_high
        assert found.worst_low > found.worst_low_chance
        assert found.worst_low > 0.15  # with chance 0.025
        assert found.mean < 0.1
        assert found.share == 1 / 40
        assert found.values[1] < 0.5
        assert measure(played, "top1", level=0.95).low < 1 / 40  # the mean shows nothing


def test_users_who_are_always_named_are_a_leak_though_a_fixed_point_would_name_one_too() -> None:
    rng = np.random.default_rng(0)
    found = tail([identify(rng, 0, np.ones(12), np.full(12, 5))])
    assert found.leaks and found.share == 1 and found.share_chance == 0
    assert found.worst == found.tail == 1


def test_of_three_users_nothing_can_be_shown_in_one_run() -> None:
    rng = np.random.default_rng(0)
    found = tail([identify(rng, 0, np.ones(3), np.full(3, 20))])
    assert found.worst == 1 and found.p == pytest.approx(1 / 6, abs=0.05)
    assert not found.leaks


def test_the_interval_of_the_worst_off_user_holds_although_they_were_picked() -> None:
    held, alone = 0, 0
    for audit in range(100):
        rng = np.random.default_rng(audit)
        skill = np.full(30, 0.4)
        found = tail([identify(rng, 0, skill, np.full(30, 8))])
        true = 0.4 + 0.6 / 30
        held += found.worst_low <= true <= found.worst_high
        assert found.worst > true + 0.1  # the highest of 30 is far too high
        alone += clopper_pearson(found.worst, 8, 0.95).low <= true
    assert held >= 95
    assert alone < 80  # the usual interval of one user


@pytest.mark.parametrize("users", [8, 30, 120])
def test_the_interval_of_the_tail_holds_as_often_as_it_says(users: int) -> None:
    rng = np.random.default_rng(3)
    drawn = [quantile_interval(rng.random(users), 0.9, 0.95) for _ in range(1000)]
    assert np.mean([one.low <= 0.9 <= one.high for one in drawn]) >= 0.94
    if users == 8:
        assert all(one.high == 1 for one in drawn)


def test_one_lucky_update_is_not_worse_off_than_nineteen_of_twenty() -> None:
    names = played_games.users(30)
    table = np.zeros((30, 30))
    table[0, 0], table[1, 1] = 1.0, 0.95
    trials = np.full(30, 20.0)
    trials[0] = 1
    each = EachUser(scores=lambda one: UserScores.of_table(names, table, trials), title="", threshold=0.5, above="")
    found = user_tail([played_games.open_world(0, 1.0)], each, level=0.95, permutations=200)
    assert found is not None
    assert (found.worst, found.worst_trials) == (0.95, 20)
    assert found.values[0] == 1


def test_seeds_that_differ_more_than_by_luck_count_as_fewer_trials() -> None:
    rng = np.random.default_rng(0)
    updates = np.full(20, 10)
    alike = tail([identify(rng, s, np.full(20, 0.5), updates) for s in range(2)])
    apart = tail([identify(rng, s, np.where(np.arange(20) % 2 == s, 1.0, 0.0), updates) for s in range(2)])
    assert alike.worst_trials > 12
    assert apart.worst_trials == pytest.approx(2, abs=1)


def test_an_interval_for_more_attacks_is_wider() -> None:
    rng = np.random.default_rng(0)
    played = [identify(rng, 0, np.full(20, 0.5), np.full(20, 10))]
    one, ten = tail(played), tail(played, attacks=10)
    assert ten.worst_low < one.worst_low and ten.worst_high >= one.worst_high
    assert ten.p == pytest.approx(10 * one.p)


@pytest.mark.parametrize("name", registry.names("game"))
def test_the_headline_of_every_game_scores_single_users(name: str) -> None:
    assert registry.load("game", name).metrics[0].each_user is not None


def test_a_user_is_scored_as_in_the_mean() -> None:
    played = played_games.attribute(1, 1.0)
    found = GROUPED.scores(played)
    assert found.values.mean() == pytest.approx(measure([played], "top1").value)
    assert found.trials.sum() == len(played.right)


def test_users_who_sent_nothing_have_no_score() -> None:
    played = played_games.open_world(0, 3.0)
    assert len(NAMED.scores(played).names) == 8  # the unseen ones
    gone = np.flatnonzero(played.right != 2)
    fewer = AttackResult(
        0, played.claims[gone], played.right[gone], played.options, "identify", played.about[gone, 0], played.users
    )
    assert "u2" not in NAMED.scores(fewer).names


def test_pairs_are_scored_by_the_pairs_that_a_user_is_in() -> None:
    who = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    claims = np.array([[0.9], [0.1], [0.5], [0.7]], dtype=np.float32)
    played = AttackResult(0, claims, np.array([1, 0, 1, 0]), ("same",), "match", who, ("a", "b"))
    found = MATCHED.scores(played)
    assert found.names == ("a", "b")
    assert found.values.tolist() == [1.0, 0.5]  # 0.9 is above 0.1 and 0.7; 0.5 is above 0.1 only
    rows = found.permuted(200, np.random.default_rng(0), moved=True)
    assert set(map(tuple, rows.tolist())) == {(1.0, 0.5), (0.0, 0.5)}


def test_users_who_are_compared_with_each_other_swap_identities_together() -> None:
    who = np.array([[0, 0], [0, 1], [1, 1], [2, 2], [2, 3], [3, 3]])
    claims = np.array([[0.9], [0.1], [0.9], [0.9], [0.1], [0.9]], dtype=np.float32)
    played = AttackResult(0, claims, np.array([1, 0, 1] * 2), ("same",), "match", who, tuple("abcd"))
    rows = MATCHED.scores(played).permuted(200, np.random.default_rng(0), moved=False)
    assert set(map(tuple, rows.tolist())) == {(a, a, b, b) for a in (0.0, 1.0) for b in (0.0, 1.0)}


def test_who_fits_a_profile_is_scored_against_the_other_group() -> None:
    claims = np.array([[0.9], [0.2], [0.5], [0.1]], dtype=np.float32)
    played = AttackResult(0, claims, np.array([1, 1, 0, 0]), ("fits",), "profile", np.arange(4), tuple("abcd"))
    found = FITTING.scores(played)
    assert found.values.tolist() == [1.0, 0.5, 0.5, 1.0]
    assert found.table is not None
    assert found.table[2, 0] == 0.0  # as one who does not fit: below nobody who fits


def test_a_secret_and_a_mean_update_are_found_or_not() -> None:
    claims = np.array([[[1, 2], [3, 4]], [[5, 6], [1, 2]]])
    secrets = np.array([[1, 2], [3, 4]])
    played = AttackResult(0, claims, secrets, (), "extract", np.arange(2), ("a", "b"), choices=100)
    assert EXTRACTED.scores(played).values.tolist() == [1.0, 0.0]
    means = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    who = np.arange(3)
    answers = MeanUpdates(right=who, who=who, users=tuple("abc"), means=means)
    sent = AttackResult.of(0, means[[0, 2, 1]], "disaggregate", (), 3, answers)
    assert RECOVERED.scores(sent).values.tolist() == [1.0, 0.0, 0.0]
