"""Which pairs are asked about, and that nothing but the updates themselves can answer."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.errors import AttackError
from fedleak.games.game import Asked
from fedleak.games.match import Match, draw_pairs
from fedleak.testing import USERS, planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

BOTH = [Match(pairs=400), Match(pairs=400, between="anonymous")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: Match, seed: int = 0) -> Asked:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return game.ask(trace, truth, prior, np.random.default_rng(seed))


@pytest.mark.parametrize("game", BOTH, ids=lambda game: game.between)
def test_half_of_the_pairs_are_of_one_person_and_none_is_asked_twice(run: Path, game: Match) -> None:
    asked = ask(run, game)
    updates, who, right = asked.questions.updates, asked.answers.who, asked.answers.right
    assert asked.questions.options == ("same",)
    assert len(updates) == 400 and right.mean() == 0.5
    assert np.array_equal(who[:, 0] == who[:, 1], right == 1)
    assert (updates[:, 0] != updates[:, 1]).all()
    assert len({frozenset(pair) for pair in updates.tolist()}) == len(updates)


@pytest.mark.parametrize("game", BOTH, ids=lambda game: game.between)
def test_neither_rounds_nor_one_update_alone_say_whether_a_pair_matches(run: Path, game: Match) -> None:
    asked = ask(run, game)
    number = np.asarray(Trace.open(run / "trace").round)
    same, different = (asked.questions.updates[asked.answers.right == value] for value in (1, 0))
    for side in (0, 1):
        assert Counter(same[:, side].tolist()) == Counter(different[:, side].tolist())
    assert Counter(map(tuple, number[same].tolist())) == Counter(map(tuple, number[different].tolist()))


def test_one_update_is_from_the_prior_or_both_are_anonymous(run: Path) -> None:
    shadow, number = (np.asarray(getattr(Trace.open(run / "trace"), name)) for name in ("shadow", "round"))
    prior, anonymous = (ask(run, game).questions.updates for game in BOTH)
    assert (shadow[prior[:, 0]] >= 0).all() and (shadow[prior[:, 1]] < 0).all()
    assert (shadow[anonymous] < 0).all()
    assert (number[anonymous[:, 0]] < number[anonymous[:, 1]]).all(), "a device sends one update a round"


def test_pairs_are_spread_over_people_as_evenly_as_can_be(run: Path) -> None:
    asked = ask(run, Match(pairs=20 * USERS))
    counts = np.bincount(asked.answers.who[asked.answers.right == 1, 0], minlength=USERS)
    assert counts.sum() == 10 * USERS
    assert counts.max() - counts.min() <= 2


def test_an_attack_learns_from_nobody_who_is_asked_about_where_nobody_is_seen(run: Path) -> None:
    asked = ask(run, Match(seen=0.0))
    about = {asked.answers.people[i] for i in asked.answers.who.ravel()}
    assert len(asked.prior.candidates) == USERS // 3
    assert not about & set(asked.prior.candidates)
    original, everyone = np.asarray(Trace.open(run / "trace").shadow), Prior.load(run / "prior").candidates
    for row in np.flatnonzero(asked.shadow >= 0):
        assert everyone[original[row]] == asked.prior.candidates[asked.shadow[row]]
    # An update from prior data of somebody unseen carries no name.
    assert (asked.shadow[asked.questions.updates] < 0).all()


@pytest.mark.parametrize(("game", "people"), [(Match(seen=0.5), 8), (Match(seen=0.5, who="unseen"), 4)])
def test_seen_people_are_asked_about_only_with_everyone(run: Path, game: Match, people: int) -> None:
    asked = ask(run, game)
    about = {asked.answers.people[i] for i in asked.answers.who.ravel()}
    assert len(about) == people
    assert len(about & set(asked.prior.candidates)) == people - 4


def test_the_same_generator_draws_the_same_pairs(run: Path) -> None:
    first, again, other = (ask(run, Match(pairs=40), seed).questions.updates for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (Match(who="unseen"), "in the closed world nobody is unseen"),
        (Match(seen=1.0), r"leave 8 seen, 0 unseen and 4 held out"),
        (Match(seen=0.0, held_out=0.0), r"two to learn from"),
        (Match(seen=0.9, who="unseen"), r"two to ask about"),
    ],
)
def test_groups_that_are_too_small_are_refused(run: Path, game: Match, message: str) -> None:
    with pytest.raises(AttackError, match=message):
        ask(run, game)


def test_people_with_a_single_update_cannot_be_paired(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    rows = np.flatnonzero(np.asarray(trace.shadow) < 0)
    device = np.asarray(trace.device)
    first = [int(rows[device[rows] == d][0]) for d in np.unique(device[rows])]
    shadow = np.zeros(len(device), dtype=np.int32)
    shadow[first] = -1
    monkeypatch.setattr(Trace, "shadow", shadow)
    with pytest.raises(AttackError, match="none of the 12 people asked about has two updates to pair"):
        Match(between="anonymous").ask(trace, truth, prior, np.random.default_rng(0))


def test_updates_of_one_person_a_round_leave_nothing_to_swap(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    monkeypatch.setattr(Trace, "round", np.arange(len(trace.device)))
    with pytest.raises(AttackError, match="no round has updates of two"):
        Match().ask(trace, truth, prior, np.random.default_rng(0))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=30), st.integers(4, 60))
def test_swapped_pairs_balance_whatever_there_is_to_pair(rows: list[tuple[int, int, int]], most: int) -> None:
    """Each row is a second of a person in a group with some firsts; firsts belong to one person."""
    rows = list({(person, group): (person, group, firsts) for person, group, firsts in rows}.values())
    person, group = (np.asarray([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    partners = [10 * row[0] + np.arange(row[2]) for row in rows]
    first, second, right = draw_pairs(partners, person, group, most, np.random.default_rng(0))
    assert len(first) <= most and len(first) % 4 == 0
    assert np.array_equal(first // 10 == person[second], right == 1)
    assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == len(first)
    for value in (first, second):
        assert Counter(value[right == 1].tolist()) == Counter(value[right == 0].tolist())
    assert Counter(zip(first[right == 1], group[second[right == 1]], strict=True)) == Counter(
        zip(first[right == 0], group[second[right == 0]], strict=True)
    )
