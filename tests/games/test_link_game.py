"""Which pairs of updates are asked about: all between two rounds, so that the questions answer nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.link import Link
from fedleak.games.traces.clients import write_clients
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty rounds in which a third of the clients takes part."""
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: Link) -> GameInstance:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    return game.ask(trace, truth, prior, np.random.default_rng(0))


def real_rounds(run: Path) -> np.ndarray:
    """The round of each update of a real client; 0 for those of shadow clients, which take no part in this game."""
    trace = Trace.open(run / "trace")
    return np.where(np.asarray(trace.shadow) < 0, trace.round, 0)


def test_every_update_of_a_round_is_asked_about_with_every_update_of_the_later_round(run: Path) -> None:
    asked = ask(run, Link(starts=3))
    number = real_rounds(run)
    pairs = {tuple(pair) for pair in asked.questions.updates.tolist()}
    assert len(pairs) == len(asked.questions)
    for first, later in {tuple(pair) for pair in number[asked.questions.updates].tolist()}:
        whole = {(a, b) for a in np.flatnonzero(number == first) for b in np.flatnonzero(number == later)}
        assert whole <= pairs


def test_gaps_are_as_said_and_starts_lie_evenly_over_the_run(run: Path) -> None:
    asked = ask(run, Link(starts=3))
    number = real_rounds(run)
    earlier, later = number[asked.questions.updates].T
    assert asked.answers.gallery is not None
    assert np.array_equal(later - earlier, asked.answers.gallery[:, 0])
    assert set((later - earlier).tolist()) == {1, 2, 5, 10, 20}
    every = Link(starts=3)._rounds(40)
    assert {start for start, _, _ in every} == {1, 10, 20} and all(end - start == gap for start, end, gap in every)


def test_only_rounds_with_updates_are_compared() -> None:
    every = Link(starts=3)._rounds(12, np.array([2, 4, 6, 8, 10, 12]))
    assert {gap for *_, gap in every} == {2, 10} and all(start % 2 == end % 2 == 0 for start, end, _ in every)
    with pytest.raises(AttackError, match="no two of them are 1, 2, 5 rounds apart; record more rounds"):
        Link()._rounds(8, np.array([1, 5, 8]))


def test_a_search_has_one_probe_and_at_most_one_right_answer(run: Path) -> None:
    asked = ask(run, Link())
    assert asked.answers.gallery is not None
    for search in np.unique(asked.answers.gallery[:, 1]):
        mine = asked.answers.gallery[:, 1] == search
        assert len(np.unique(asked.questions.updates[mine, 0])) == 1
        assert asked.answers.right[mine].sum() <= 1


def test_an_answer_is_yes_where_both_come_from_one_client(run: Path) -> None:
    asked = ask(run, Link())
    client = np.asarray(Trace.open(run / "trace").client)[asked.questions.updates]
    assert np.array_equal(asked.answers.right == 1, client[:, 0] == client[:, 1])


def test_the_adversary_gets_the_auxiliary_set_and_nobodys_data_and_sees_every_update_without_a_name(
    tmp_path: Path,
) -> None:
    folder = write_clients(tmp_path, 0, leak=True)
    asked = ask(folder, Link())
    assert asked.prior.candidates == () and asked.prior.background is not None
    view, questions = asked.look(folder / "trace", ANONYMOUS_SERVER)
    assert len(view.updates) == len(Trace.open(folder / "trace").round)
    assert len(np.unique(view.updates.handle)) == len(view.updates)
    assert np.array_equal(questions.updates, asked.questions.updates)


def test_gaps_longer_than_the_run_are_left_out(tmp_path: Path) -> None:
    asked = ask(write_clients(tmp_path, 0, leak=True), Link())
    assert asked.answers.gallery is not None
    assert set(asked.answers.gallery[:, 0].tolist()) == {1, 2}


def test_a_single_round_is_refused() -> None:
    with pytest.raises(AttackError, match="train more than one round"):
        Link()._rounds(1)
