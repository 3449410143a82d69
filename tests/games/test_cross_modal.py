"""What is left of users' images when the adversary has only words about them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.core import Task
from fedleak.errors import AttackError
from fedleak.games.cross_modal import CrossModal, Described
from fedleak.games.game import GameInstance
from fedleak.games.traces.users import USERS
from fedleak.population.captions import words
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_trace(tmp_path_factory.mktemp("planted"), 0)


def ask(run: Path, game: CrossModal, prior: Prior | None = None) -> GameInstance:
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    return game.ask(trace, truth, prior or Prior.load(run / "prior"), np.random.default_rng(0))


def test_the_attack_is_given_words_and_no_pixel(run: Path) -> None:
    asked = ask(run, CrossModal())
    original = Prior.load(run / "prior")
    for candidate, examples in zip(asked.prior.candidates, asked.prior.examples, strict=True):
        mine = original.examples[original.candidates.index(candidate)]
        assert len(examples) == len(mine)
        assert np.issubdtype(examples.x.dtype, np.integer) and examples.x.ndim == 2
        assert examples.y is None and examples.fingerprint is None
        assert mine.y is not None
        for caption, label in zip(words(examples.x, asked.prior.outputs), mine.y, strict=True):
            assert f" {label} ," in caption
    assert asked.prior.attributes == () and asked.prior.background is None


def test_right_and_wrong_pairs_hold_the_same_updates_and_the_same_users(run: Path) -> None:
    asked = ask(run, CrossModal())
    questions, right, scored = asked.questions, asked.answers.right, asked.answers.scored
    assert isinstance(questions, Described)
    assert scored is not None and right[scored].mean() == 0.5
    for column in (questions.updates[scored], questions.candidate[scored]):
        assert Counter(column[right[scored] == 1].tolist()) == Counter(column[right[scored] == 0].tolist())
    assert len(questions) == len(np.unique(questions.updates)) * USERS // 2, "every update with every text"
    trace, truth = Trace.open(run / "trace"), Truth.load(run / "truth")
    assert (np.asarray(trace.shadow)[questions.updates] < 0).all()
    for row, candidate, same in zip(questions.updates, questions.candidate, right, strict=True):
        sender = truth.client_user[trace.header.clients[trace.client[row]]]
        assert (sender == asked.prior.candidates[candidate]) == (same == 1)


def test_by_default_it_learns_only_from_users_nobody_asks_about(run: Path) -> None:
    asked = ask(run, CrossModal())
    assert isinstance(asked.questions, Described)
    learnt = set(asked.shadow[asked.shadow >= 0].tolist())
    assert len(asked.prior.candidates) == USERS, "it has text about everyone"
    assert 2 <= len(learnt) <= USERS // 2
    assert not learnt & set(asked.questions.candidate.tolist())
    original, everyone = np.asarray(Trace.open(run / "trace").shadow), Prior.load(run / "prior").candidates
    for row in np.flatnonzero(asked.shadow >= 0):
        assert everyone[original[row]] == asked.prior.candidates[asked.shadow[row]]


def test_it_may_learn_from_clients_of_those_it_is_asked_about(run: Path) -> None:
    asked = ask(run, CrossModal(learn_from="everyone"))
    assert np.array_equal(asked.shadow, Trace.open(run / "trace").shadow)
    assert len({asked.answers.users[i] for i in asked.answers.who.ravel()}) == USERS


def test_too_few_users_are_refused(run: Path) -> None:
    with pytest.raises(AttackError, match="leaves 1 for training and 11 for questions"):
        ask(run, CrossModal(held_out=0.1))


def test_what_is_not_a_image_with_a_class_cannot_be_described(run: Path) -> None:
    prior = Prior.load(run / "prior")
    flat = tuple(replace(examples, x=examples.x.reshape(len(examples), -1)) for examples in prior.examples)
    with pytest.raises(AttackError, match="describes images with one class each"):
        ask(run, CrossModal(), replace(prior, examples=flat))
    with pytest.raises(AttackError, match="task 'regress'"):
        ask(run, CrossModal(), replace(prior, task=Task.REGRESS))
