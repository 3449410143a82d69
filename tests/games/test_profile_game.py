"""Who fits a profile, and what the adversary is given to find out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.errors import AttackError
from fedleak.games.game import GameInstance
from fedleak.games.profile import Profile, ProfileQuestions
from fedleak.games.traces.users import USERS, write_federation
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_federation(tmp_path_factory.mktemp("federation"), 0, leak=True)


def ask(run: Path, game: Profile, prior: Prior | None = None, seed: int = 0) -> GameInstance:
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    return game.ask(trace, truth, prior or Prior.load(run / "prior"), np.random.default_rng(seed))


def test_one_update_of_every_anonymous_client_is_asked_about(run: Path) -> None:
    asked, trace, truth = ask(run, Profile(trait="marked")), Trace.open(run / "trace"), Truth.load(run / "truth")
    clients = [trace.header.clients[trace.client[row]] for row in asked.questions.updates]
    assert len(set(clients)) == len(clients) == USERS
    assert all(np.asarray(trace.shadow)[asked.questions.updates] < 0)
    for client, right in zip(clients, asked.answers.right, strict=True):
        assert right == (truth.traits[truth.client_user[client]]["marked"] >= 0.5)
    assert 0 < asked.answers.right.sum() < USERS


def test_the_adversary_gets_nothing_of_anybody_who_takes_part(run: Path) -> None:
    asked = ask(run, Profile(trait="marked"))
    assert asked.prior.candidates == () and asked.prior.attributes == ()
    assert (asked.shadow == -1).all()
    questions = asked.questions
    assert isinstance(questions, ProfileQuestions)
    assert questions.options == ("fits",)
    assert (questions.fitting.x[:, 0] > 0).all() and (questions.unlike.x[:, 0] <= 0).all()
    assert len(questions.fitting) + len(questions.unlike) == len(questions.others)
    public = Prior.load(run / "prior").background
    assert public is not None
    assert np.array_equal(questions.others.x, public.examples.x), "of which preparing users has dropped their own"


def test_the_same_generator_asks_about_the_same_updates(run: Path) -> None:
    first, again, other = (ask(run, Profile(trait="marked"), seed=seed).questions.updates for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_trait_that_nobody_looked_for_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(AttackError, match=r"unknown trait 'market'; did you mean 'marked'\?"):
        ask(run, Profile(trait="market"))
    with pytest.raises(AttackError, match="this data set has no traits with public background data"):
        ask(planted_trace(tmp_path, 0), Profile(trait="marked"))


def test_a_profile_that_everybody_or_nobody_fits_is_refused(run: Path) -> None:
    truth, prior = Truth.load(run / "truth"), Prior.load(run / "prior")
    for share, word in ((0.9, "raise"), (0.1, "lower")):
        same = replace(truth, traits={user: {"marked": share} for user in truth.users})
        with pytest.raises(AttackError, match=rf"nothing to distinguish; {word} least \(now 0.5\)"):
            Profile(trait="marked").ask(Trace.open(run / "trace"), same, prior, np.random.default_rng(0))


def test_public_examples_that_all_show_it_are_too_few(run: Path) -> None:
    prior = Prior.load(run / "prior")
    assert prior.background is not None
    all_show = replace(prior.background, shows={"marked": np.ones(len(prior.background.examples), np.int8)})
    with pytest.raises(AttackError, match=r"400 public examples show 'marked' and 0 of the same kind do not"):
        ask(run, Profile(trait="marked"), replace(prior, background=all_show))


def test_updates_of_proxy_clients_are_labelled_for_the_trait_that_is_asked_for(tmp_path: Path) -> None:
    run = write_federation(tmp_path, 0, leak=True, proxies=True)
    trace, truth, asked = Trace.open(run / "trace"), Truth.load(run / "truth"), ask(run, Profile(trait="marked"))
    shadow = np.asarray(trace.shadow)
    assert ((asked.shadow == 0) == (shadow == USERS)).all() and ((asked.shadow == 1) == (shadow == USERS + 1)).all()
    assert (asked.shadow >= 0).any() and (shadow[asked.shadow >= 0] >= USERS).all(), "no user's client is labelled"
    own = {trace.header.clients[client] for client in np.asarray(trace.client)[asked.shadow >= 0]}
    assert own.isdisjoint(truth.client_user), "proxy clients are nobody's"
    other = replace(Prior.load(run / "prior"), proxies=("another",))
    assert (ask(run, Profile(trait="marked"), other).shadow == -1).all()
