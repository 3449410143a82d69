"""Permutations of users: whole, shared by all attacks and seeds, and such that questions keep their clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from noise import GAMES, Play, match_anonymous, match_prior
from played_games import match, profile, users

from fedleak import registry
from fedleak.core import IntArray
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.shuffles import deals, exchanged, identities
from fedleak.score.score import measure, metric_of
from scored import measure as measure_named


def drawn(one: AttackResult, times: int = 40) -> IntArray:
    [deal], _ = deals([one], times, 0.95)
    return deal(slice(0, times))


def test_seeds_share_permutations_and_pass_over_who_is_absent() -> None:
    every, same, fewer = identities([list("abcdef"), list("fedcba"), list("abdef")], 200, 1)
    assert (np.sort(fewer, axis=1) == np.arange(5)).all()
    assert (same == 5 - every[:, ::-1]).all()  # the same users, listed in another order
    kept = [0, 1, 3, 4, 5]
    there = every[:, kept] != 2
    assert there.mean() > 0.7 and (np.asarray(kept)[fewer] == every[:, kept])[there].all()
    counts = np.bincount((fewer * 5 ** np.arange(5)).sum(axis=1))
    assert (counts > 0).sum() > 70  # of 120, in 200 draws


def test_users_swap_their_answers_whole() -> None:
    who = np.repeat(np.arange(6), [1, 5, 2, 2, 4, 3])
    right = np.array([1, 0, 0, 1, 0, 2])[who]
    one = AttackResult(0, np.zeros((len(who), 3), dtype=np.float32), right, ("a", "b", "c"), "attribute", who, users(6))
    rows = drawn(one, 50)
    for row in rows:
        answers = [set(row[who == user]) for user in range(6)]
        assert all(len(answer) == 1 for answer in answers)
        assert sorted(answer.pop() for answer in answers) == [0, 0, 0, 1, 1, 2]
    assert len({tuple(row) for row in rows}) > 20


@pytest.mark.parametrize("play", [match_prior, match_anonymous])
def test_users_exchange_their_places_in_a_grid(play: Play) -> None:
    [[one, other], *_] = play(8, [1, 2], np.random.default_rng(0))
    assert one.answers is not None and one.answers.cells is not None and one.answers.scored is not None
    found = exchanged([one, other], 60)
    assert found is not None
    cells, scored = one.answers.cells, one.answers.scored
    for row in found[0]:
        here, there = cells[scored], cells[row]
        assert np.array_equal(here[:, [0, 1, 3]], there[:, [0, 1, 3]])  # the same grid, place and number
        for grid in np.unique(here[:, 0]):
            pairs = {(a, b) for a, b in zip(here[here[:, 0] == grid, 2], there[here[:, 0] == grid, 2], strict=True)}
            assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})  # one to one
    assert len({tuple(row) for row in found[0]}) > 30


def test_pairs_keep_their_balance_and_their_runs() -> None:
    one = match(1, 1.0, count=10, pairs=400)
    assert one.who is not None
    rows = drawn(one)
    assert (rows.sum(axis=1) == one.right.sum()).all()
    order = np.lexsort((one.right, one.who[:, 0]))
    # 10 users with a yes and a no each: at most 20 runs, where shuffled answers would have about 200.
    assert (np.abs(np.diff(rows[:, order], axis=1)).sum(axis=1) < 20).all()


@pytest.mark.parametrize("game", GAMES)
def test_every_attack_on_a_question_is_scored_under_the_same_permutations(game: str) -> None:
    play, name = GAMES[game]
    (one, *_), again, *_ = play(12, [3], np.random.default_rng(1))
    metric = metric_of(registry.load("game", one.game), name)
    same, different, own = (
        measure([each], metric, level=0.95, permutations=60).permuted
        for each in (replace(again[0], claims=one.claims.copy(), asked=one.asked), again[0], one)
    )
    assert same is not None and different is not None and own is not None
    assert np.array_equal(same, own)
    assert not np.array_equal(same, different)


def test_what_seeds_share_is_not_averaged_out() -> None:
    # One run, twice: its null must not be narrower than that of the run itself.
    one = profile(1, 0.0)
    once, twice = (measure_named(runs, "ap", level=0.95, permutations=400) for runs in ([one], [one, one]))
    assert once.permuted is not None and twice.permuted is not None
    assert twice.permuted.std() == pytest.approx(once.permuted.std())
