"""Who is asked about, who is seen, and what the adversary keeps of its labelled updates."""

from pathlib import Path

import numpy as np
import pytest

from fedleak.core import UserId
from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.identify import Identify
from fedleak.games.traces.users import USERS
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER, Adversary
from fedleak.views.view import View


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: Identify, seed: int = 0) -> GameInstance:
    prior = Prior.load(run / "prior")
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    return game.ask(trace, truth, prior, np.random.default_rng(seed))


def test_the_closed_world_asks_about_every_anonymous_update_and_offers_everyone(run: Path) -> None:
    asked = ask(run, Identify())
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    assert asked.questions.options == tuple(truth.users)
    assert set(asked.questions.updates) == set(np.flatnonzero(np.asarray(trace.shadow) < 0))
    for row, right in zip(asked.questions.updates, asked.answers.right, strict=True):
        assert truth.client_user[trace.header.clients[trace.client[row]]] == asked.questions.options[right]
    assert np.array_equal(asked.shadow, trace.shadow)


def test_the_open_world_divides_users_into_seen_unseen_and_held_out(run: Path) -> None:
    asked = ask(run, Identify(seen=0.5))
    seen, held = asked.questions.options[:-1], asked.prior.candidates[len(asked.questions.options) - 1 :]
    assert (len(seen), len(held)) == (USERS // 3, USERS // 3)
    assert not set(seen) & set(held)
    about = {asked.answers.users[i] for i in asked.answers.who}
    assert not about & set(held), "held-out users serve to train, nobody asks about them"
    unseen = {asked.answers.users[i] for i in asked.answers.who[asked.answers.right == len(seen)]}
    assert len(unseen) == USERS // 3 and not unseen & set(seen)


def test_an_adversary_without_prior_data_of_somebody_has_no_labelled_update_of_them(run: Path) -> None:
    asked = ask(run, Identify(seen=0.5))
    original, everyone = np.asarray(Trace.open(run / "trace").shadow), Prior.load(run / "prior").candidates
    known = {everyone[original[row]] for row in np.flatnonzero(asked.shadow >= 0)}
    assert known <= set(asked.prior.candidates)
    for row in np.flatnonzero(asked.shadow >= 0):
        assert asked.prior.candidates[asked.shadow[row]] == everyone[original[row]]


def test_labelled_updates_can_be_few(run: Path) -> None:
    asked = ask(run, Identify(labelled=2))
    assert max(np.bincount(asked.shadow[asked.shadow >= 0])) == 2
    assert len(asked.questions) == len(ask(run, Identify()).questions)


def test_labelled_updates_can_come_from_some_rounds_only(run: Path) -> None:
    asked = ask(run, Identify(labelled_rounds=(11, 20)))
    rounds = Trace.open(run / "trace").round
    assert set(rounds[asked.shadow >= 0]) == set(range(11, 21))
    assert np.array_equal(asked.questions.updates, ask(run, Identify()).questions.updates)


def test_the_same_generator_asks_the_same(run: Path) -> None:
    first, again, other = (ask(run, Identify(seen=0.5), seed) for seed in (1, 1, 2))
    assert first.questions.options == again.questions.options != other.questions.options


@pytest.mark.parametrize("game", [Identify(seen=1.0), Identify(seen=0.5, held_out=0.0), Identify(seen=0.05)])
def test_an_open_world_without_one_of_its_groups_is_refused(run: Path, game: Identify) -> None:
    with pytest.raises(AttackError, match=r"open world: .* are needed"):
        ask(run, game)


def test_a_prior_of_somebody_outside_the_federation_is_refused(run: Path) -> None:
    prior = Prior.load(run / "prior")
    more = Prior(
        candidates=(*prior.candidates, UserId("nobody")),
        examples=(*prior.examples, prior.examples[0]),
        task=prior.task,
        outputs=prior.outputs,
    )
    with pytest.raises(AttackError, match=r"1 users without a client in the federation \(first: nobody\)"):
        Identify().ask(Trace.open(run / "trace"), Truth.load(run / "truth"), more, np.random.default_rng(0))


@pytest.mark.parametrize("adversary", [ANONYMOUS_SERVER, SERVER])
def test_the_view_holds_what_is_labelled_or_asked_about_and_nothing_else(run: Path, adversary: Adversary) -> None:
    # Rows that nobody asks about would show who is a stranger, and handles would lead from one label to all of them.
    for game in (Identify(seen=0.5), Identify(labelled=1), Identify(labelled_rounds=(1, 3)), Identify()):
        asked = ask(run, game)
        view, questions = asked.look(run / "trace", adversary)
        updates = view.updates
        known = np.flatnonzero(updates.shadow >= 0)
        assert sorted([*known, *questions.updates]) == list(range(len(updates)))
        whole = View(run / "trace", adversary).updates.layer("out")
        assert np.array_equal(updates.layer("out")[questions.updates], whole[asked.questions.updates])
        assert np.array_equal(updates.shadow[known], asked.shadow[asked.shadow >= 0])


def test_what_is_taken_of_a_prior_does_not_lead_to_the_rest(run: Path) -> None:
    taken = ask(run, Identify(seen=0.5)).prior
    assert all(examples.x.base is None for examples in taken.examples)
