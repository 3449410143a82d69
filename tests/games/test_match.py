"""Which pairs are asked about, and that nothing but the updates themselves can answer."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedleak.core import IntArray
from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.match import Match
from fedleak.games.pairs import Drawn, between_rounds, between_sides
from fedleak.games.traces.users import USERS
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

BOTH = [Match(pairs=400), Match(pairs=400, between="anonymous")]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: Match, seed: int = 0) -> GameInstance:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return game.ask(trace, truth, prior, np.random.default_rng(seed))


def scored(asked: GameInstance) -> tuple[IntArray, IntArray, IntArray]:
    """Updates, users and answers of the scored questions."""
    assert asked.answers.scored is not None
    updates, who, right = asked.questions.updates, asked.answers.who, asked.answers.right
    return updates[asked.answers.scored], who[asked.answers.scored], right[asked.answers.scored]


@pytest.mark.parametrize("game", BOTH, ids=lambda game: game.between)
def test_half_of_the_scored_pairs_are_of_one_user_and_none_is_asked_twice(run: Path, game: Match) -> None:
    asked = ask(run, game)
    updates, who, right = asked.questions.updates, asked.answers.who, asked.answers.right
    assert asked.questions.options == ("same",)
    assert 100 <= len(updates) <= 400
    assert np.array_equal(who[:, 0] == who[:, 1], right == 1)
    assert (updates[:, 0] != updates[:, 1]).all()
    assert len({frozenset(pair) for pair in updates.tolist()}) == len(updates)
    assert scored(asked)[2].mean() == 0.5


@pytest.mark.parametrize("game", BOTH, ids=lambda game: game.between)
def test_one_update_alone_does_not_say_whether_a_scored_pair_matches(run: Path, game: Match) -> None:
    updates, _, right = scored(ask(run, game))
    same, different = (updates[right == value] for value in (1, 0))
    for side in (0, 1):
        assert Counter(same[:, side].tolist()) == Counter(different[:, side].tolist())


def test_rounds_do_not_say_whether_two_anonymous_updates_match(run: Path) -> None:
    updates, _, right = scored(ask(run, BOTH[1]))
    number = np.asarray(Trace.open(run / "trace").round)
    same, different = (updates[right == value] for value in (1, 0))
    assert Counter(map(tuple, number[same].tolist())) == Counter(map(tuple, number[different].tolist()))


def test_every_asked_update_is_asked_with_the_prior_data_of_every_user(run: Path) -> None:
    """Fewer users would be fewer candidates."""
    asked, shadow = ask(run, BOTH[0]), np.asarray(Trace.open(run / "trace").shadow)
    first, second = asked.questions.updates.T
    for update in np.unique(second):
        assert set(shadow[first[second == update]].tolist()) == set(range(USERS))


def test_every_later_update_is_asked_with_the_same_earlier_updates_as_others_of_its_round(run: Path) -> None:
    updates, number = ask(run, BOTH[1]).questions.updates, np.asarray(Trace.open(run / "trace").round)
    shadow = np.asarray(Trace.open(run / "trace").shadow)
    for at in np.unique(number[updates[:, 1]]):
        here = updates[number[updates[:, 1]] == at]
        partners = {later: frozenset(here[here[:, 1] == later, 0].tolist()) for later in here[:, 1].tolist()}
        assert set(partners) == set(np.flatnonzero((number == at) & (shadow < 0)).tolist())
        assert len(set(partners.values())) == 1


def test_one_update_is_from_the_prior_or_both_are_anonymous(run: Path) -> None:
    shadow, number = (np.asarray(getattr(Trace.open(run / "trace"), name)) for name in ("shadow", "round"))
    prior, anonymous = (ask(run, game).questions.updates for game in BOTH)
    assert (shadow[prior[:, 0]] >= 0).all() and (shadow[prior[:, 1]] < 0).all()
    assert (shadow[anonymous] < 0).all()
    assert (number[anonymous[:, 0]] < number[anonymous[:, 1]]).all(), "a client sends one update a round"


def test_pairs_are_spread_over_users_as_evenly_as_can_be(run: Path) -> None:
    updates, who, right = scored(ask(run, Match()))
    counts, others = (np.bincount(who[right == value, 0], minlength=USERS) for value in (1, 0))
    assert np.array_equal(counts, others)
    # All anonymous updates are asked about, with the same number of the prior's, except what only one user still has.
    sent = np.bincount(ask(run, Match()).answers.who[:, 1], minlength=USERS)
    assert (counts.max() - counts < sent.max()).all() and len(np.unique(updates[:, 0])) % USERS == 0


def test_an_attack_learns_from_nobody_who_is_asked_about_where_nobody_is_seen(run: Path) -> None:
    asked = ask(run, Match(seen=0.0))
    about = {asked.answers.users[i] for i in asked.answers.who.ravel()}
    assert len(asked.prior.candidates) == USERS // 3
    assert not about & set(asked.prior.candidates)
    original, everyone = np.asarray(Trace.open(run / "trace").shadow), Prior.load(run / "prior").candidates
    for row in np.flatnonzero(asked.shadow >= 0):
        assert everyone[original[row]] == asked.prior.candidates[asked.shadow[row]]
    # An update from prior data of somebody unseen carries no name.
    assert (asked.shadow[asked.questions.updates] < 0).all()


@pytest.mark.parametrize(("game", "users"), [(Match(seen=0.5), 8), (Match(seen=0.5, who="unseen"), 4)])
def test_seen_users_are_asked_about_only_with_everyone(run: Path, game: Match, users: int) -> None:
    asked = ask(run, game)
    about = {asked.answers.users[i] for i in asked.answers.who.ravel()}
    assert len(about) == users
    assert len(about & set(asked.prior.candidates)) == users - 4


def test_the_same_generator_draws_the_same_pairs(run: Path) -> None:
    first, again, other = (ask(run, Match(pairs=40), seed).questions.updates for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (Match(who="unseen"), "the closed world has no unseen users"),
        (Match(seen=1.0), r"leave 8 seen, 0 unseen and 4 held out"),
        (Match(seen=0.0, held_out=0.0), r"two to learn from"),
        (Match(seen=0.9, who="unseen"), r"two asked about"),
    ],
)
def test_groups_that_are_too_small_are_refused(run: Path, game: Match, message: str) -> None:
    with pytest.raises(AttackError, match=message):
        ask(run, game)


def test_users_with_a_single_update_cannot_be_paired(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    rows = np.flatnonzero(np.asarray(trace.shadow) < 0)
    client = np.asarray(trace.client)
    first = [int(rows[client[rows] == d][0]) for d in np.unique(client[rows])]
    shadow = np.zeros(len(client), dtype=np.int32)
    shadow[first] = -1
    monkeypatch.setattr(Trace, "shadow", shadow)
    with pytest.raises(AttackError, match="no pairs can be drawn of the 12 users in the questions"):
        Match(between="anonymous").ask(trace, truth, prior, np.random.default_rng(0))


def test_updates_of_one_user_a_round_leave_nothing_to_swap(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    monkeypatch.setattr(Trace, "round", np.arange(len(trace.client)))
    with pytest.raises(AttackError, match="fewer than two of them sent enough updates that are in one round"):
        Match(between="anonymous").ask(trace, truth, prior, np.random.default_rng(0))


def balanced(drawn: Drawn, most: int) -> None:
    pairs = list(zip(drawn.first.tolist(), drawn.second.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) <= most
    right = drawn.right[drawn.scored]
    for value in (drawn.first[drawn.scored], drawn.second[drawn.scored]):
        assert Counter(value[right == 1].tolist()) == Counter(value[right == 0].tolist())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=7), st.integers(4, 60))
def test_known_and_sent_are_paired_evenly_whoever_has_how_many(sizes: list[tuple[int, int]], most: int) -> None:
    firsts, seconds = ([10 * p + np.arange(pair[side]) for p, pair in enumerate(sizes)] for side in (0, 1))
    drawn = between_sides(firsts, seconds, most, np.random.default_rng(0))
    balanced(drawn, most)
    first, second = drawn.first, drawn.second
    assert np.array_equal(first // 10 == second // 10, drawn.right == 1)
    assert len(first) == len(np.unique(first)) * len(np.unique(second)), "a full grid"
    able = sum(min(pair) > 0 for pair in sizes)
    assert len(np.unique(first // 10)) == (min(able, max(2, int((most // 2) ** 0.5))) if able > 1 else 0)


@given(st.sets(st.tuples(st.integers(0, 4), st.integers(1, 6)), max_size=30), st.integers(4, 60))
def test_anonymous_updates_are_paired_evenly_with_earlier_ones(sent: set[tuple[int, int]], most: int) -> None:
    table = np.asarray(sorted(sent), dtype=np.int64).reshape(-1, 2)
    drawn = between_rounds(np.arange(len(table)), table[:, 0], table[:, 1], most, np.random.default_rng(0))
    balanced(drawn, most)
    assert (table[drawn.first, 1] < table[drawn.second, 1]).all()
    assert np.array_equal(table[drawn.first, 0] == table[drawn.second, 0], drawn.right == 1)


def test_a_report_says_why_two_updates_of_a_client_match_where_nothing_is_personal() -> None:
    assert "updates can be linked" in Match(between="anonymous").note
    assert Match().note == ""
