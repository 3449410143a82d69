"""Imitated clients send what real ones would, and several updates of one client count together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.attacks.context import AttackContext
from fedleak.attacks.imitate import Imitation
from fedleak.attacks.profile.gradient import ProfileGradient
from fedleak.core import rng_for
from fedleak.defences.clip import Clip
from fedleak.errors import AttackError
from fedleak.federation.proxies import alike
from fedleak.games.game import Questions
from fedleak.games.profile import Profile
from fedleak.games.traces.users import write_federation
from fedleak.population.population import Examples
from fedleak.testing import planted_trace
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER, SERVER
from fedleak.views.view import View


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_federation(tmp_path_factory.mktemp("federation"), 0, leak=True)


def test_an_imitated_client_sends_what_the_real_one_sent_up_to_the_order_of_its_examples(run: Path) -> None:
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    imitation = Imitation(View(run / "trace", ANONYMOUS_SERVER), prior.examples, 0)
    row = int(np.flatnonzero(np.asarray(trace.shadow) >= 0)[0])
    user = truth.client_user[trace.header.clients[trace.client[row]]]
    imitated = imitation.updates(int(trace.round[row]))
    real = {name: np.asarray(trace.updates(name)[row]) for name in imitated}
    # Other orders of the same examples differ in the second order of the learning rate only.
    alike = [
        float(
            np.mean(
                [
                    values[i] @ real[n] / np.linalg.norm(values[i]) / np.linalg.norm(real[n])
                    for n, values in imitated.items()
                ]
            )
        )
        for i in range(len(prior.candidates))
    ]
    assert prior.candidates[int(np.argmax(alike))] == user and max(alike) > 0.95


def test_equal_data_gives_equal_updates(run: Path) -> None:
    data = Prior.load(run / "prior").examples[0]
    found = Imitation(View(run / "trace", ANONYMOUS_SERVER), [data, data], 0).updates(3)
    assert all(np.array_equal(values[0], values[1]) for values in found.values())


def test_who_knows_of_a_defence_imitates_it(run: Path) -> None:
    data = Prior.load(run / "prior").examples
    bare = Imitation(View(run / "trace", ANONYMOUS_SERVER), data, 0).updates(3)
    raw = np.linalg.norm(np.concatenate(list(bare.values()), 1), axis=1)
    known = View(run / "trace", ANONYMOUS_SERVER, defences=(Clip(bound=float(np.median(raw))),))
    sent = np.linalg.norm(np.concatenate(list(Imitation(known, data, 0).updates(3).values()), 1), axis=1)
    np.testing.assert_allclose(sent, np.minimum(raw, np.median(raw)), rtol=1e-4)


def test_updates_that_can_be_linked_count_together(run: Path) -> None:
    trace, attack = Trace.open(run / "trace"), ProfileGradient(clients=2)
    asked = Profile(trait="marked").ask(trace, Truth.load(run / "truth"), Prior.load(run / "prior"), rng_for(0))
    linked = attack.run(
        View(run / "trace", SERVER, asked.shadow), asked.prior, asked.questions, AttackContext(rng_for(0, "x"))
    )
    every = replace(asked.questions, updates=np.flatnonzero(np.asarray(trace.shadow) < 0))
    single = attack.run(
        View(run / "trace", ANONYMOUS_SERVER, asked.shadow), asked.prior, every, AttackContext(rng_for(0, "x"))
    )
    client = np.asarray(trace.client)
    for row, claim in zip(asked.questions.updates, linked[:, 0], strict=True):
        same = client[every.updates] == client[row]
        assert claim == pytest.approx(single[same, 0].mean(), abs=1e-5)


def test_unlike_examples_have_the_classes_of_those_they_replace() -> None:
    rng = np.random.default_rng(0)
    pool = Examples(x=np.zeros((30, 1), np.float32), y=np.arange(30) % 3)
    given = Examples(x=np.zeros((4, 1), np.float32), y=np.array([2, 2, 0, 9]))
    chosen = alike(given, pool, rng)
    assert pool.y is not None
    assert pool.y[chosen][:3].tolist() == [2, 2, 0], "of the last one's class there is none, so any will do"
    text = Examples(x=np.zeros((5, 3), np.int64))
    assert len(set(alike(text, text, rng).tolist())) == 5


def test_questions_of_another_game_and_traces_that_do_not_say_how_the_model_is_built_are_refused(
    run: Path, tmp_path: Path
) -> None:
    view = View(run / "trace", ANONYMOUS_SERVER)
    with pytest.raises(AttackError, match="answers the questions of the game 'profile' only"):
        ProfileGradient().run(
            view, Prior.load(run / "prior"), Questions(updates=np.arange(2), options=("a",)), AttackContext(rng_for(0))
        )
    with pytest.raises(AttackError, match="does not say how the model is built"):
        Imitation(View(planted_trace(tmp_path, 0) / "trace", ANONYMOUS_SERVER), [], 0)
