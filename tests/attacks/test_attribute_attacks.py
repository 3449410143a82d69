"""What the contract does not ask of the attribute attacks: new users, exact vocabularies, two heads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.attacks.attribute.mlp import AttributeJoint, AttributeMlp
from fedleak.attacks.attribute.words import AttributeWords, vocabulary
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.joint import Joint
from fedleak.attacks.network import Network, Predict, fit
from fedleak.core import FloatArray, IntArray, Task, UserId, rng_for
from fedleak.errors import AttackError
from fedleak.federation.federation import initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.recurrent import WordLm
from fedleak.games.attribute import Attribute
from fedleak.games.game import Questions
from fedleak.games.traces.users import USERS
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share, User
from fedleak.score.score import AttackResult
from fedleak.testing import planted_trace
from fedleak.trace.header import Header
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View
from scored import measure, play

WORDS, WRITERS = 40, 16


def rows(kinds: IntArray, rng: np.random.Generator) -> FloatArray:
    return (np.eye(6)[kinds] + 0.1 * rng.normal(size=(len(kinds), 6))).astype(np.float32)


def test_each_head_learns_its_own_column_and_skips_what_is_not_known() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 200)
    known = rows(kind, rng)
    half = np.where(np.arange(200) < 100, kind % 2, -1)  # of the rest the second answer is not known
    settings = Network(epochs=20, lr=0.1, batch=8)
    first, second = fit(known, [kind, half], settings, np.random.default_rng(1))(known)
    assert (first.argmax(1) == kind).mean() > 0.95
    assert (second.argmax(1) == kind % 2).mean() > 0.95
    assert np.allclose(np.exp(second).sum(1), 1, atol=1e-5)


def test_a_head_that_knows_hardly_anything_does_not_spoil_the_others() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 2
    nearly = np.full(40, -1)
    nearly[0] = 0
    known = rows(kind, rng)
    first, second = fit(known, [kind, nearly], Network(epochs=30, lr=0.1, batch=4), rng)(known)
    assert np.isfinite(second).all() and (first.argmax(1) == kind).mean() > 0.95


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, set[int]]]:
    """A federation of users who write, in two groups with ten words each that the other group hardly uses."""
    folder, rng = tmp_path_factory.mktemp("text"), rng_for(0, "text")

    def sentences(group: int) -> Examples:
        common = rng.integers(22, WORDS, (12, 6))
        own = 2 + 10 * group + rng.integers(0, 10, (12, 6))
        return Examples(x=np.where(rng.random((12, 6)) < 0.25, own, common).astype(np.int64))

    shares = []
    for i in range(WRITERS):
        prior, private = sentences(i % 2), sentences(i % 2)
        user = User(UserId(f"user-{i:02}"), Examples.concat([prior, private]), {"side": "ab"[i % 2]})
        shares.append(Share(user, prior, private))
    clients = make_clients(shares, 0)
    users = tuple(share.user.id for share in shares)
    Truth(
        users=users,
        client_user={client.id: client.user for client in clients},
        attributes={share.user.id: share.user.attributes for share in shares},
    ).save(folder / "truth")
    Prior(candidates=users, examples=tuple(share.prior for share in shares), task=Task.NEXT_TOKEN, outputs=WORDS).save(
        folder / "prior"
    )
    model = WordLm(embedding=8, hidden=8).build(Signature(Task.NEXT_TOKEN, (6,), WORDS))
    plan = FederationPlan(rounds=12, fraction=0.5, lr=1.0, batch=6)
    header = Header(
        fingerprint="text",
        rounds=plan.rounds,
        task=Task.NEXT_TOKEN,
        model="word-lm",
        layout=model.layout,
        clients=tuple(client.id for client in clients),
        shadow=tuple(client.shadow for client in clients),
    )
    writer = TraceWriter.open(folder / "trace", header)
    writer.start(initial(model, 0))
    for done in train(model, clients, plan, (), None, 0):
        writer.append(done)
    # The last word of a sentence is only predicted, never read.
    return folder, {client.id: set(client.data.x[:, :-1].ravel().tolist()) for client in clients}


def test_the_words_that_moved_are_exactly_those_that_the_client_read(text: tuple[Path, dict[str, set[int]]]) -> None:
    folder, read = text
    trace = Trace.open(folder / "trace")
    every = np.arange(len(trace.client))
    used = vocabulary(View(folder / "trace", ANONYMOUS_SERVER), every)[:, :WORDS]
    for row in every:
        assert set(np.flatnonzero(used[row]).tolist()) == read[trace.header.clients[trace.client[row]]]


def test_words_give_the_group_of_users_away_who_were_never_seen(text: tuple[Path, dict[str, set[int]]]) -> None:
    folder, _ = text
    game = Attribute(attribute="side", users="new")
    trace, truth = Trace.open(folder / "trace"), Truth.load(folder / "truth")
    asked = game.ask(trace, truth, Prior.load(folder / "prior"), rng_for(0, "game"))
    view = View(folder / "trace", ANONYMOUS_SERVER, asked.shadow)
    claims = AttributeWords().run(view, asked.prior, asked.questions, AttackContext(rng_for(0, "attack")))
    answers = asked.answers
    played = AttackResult(0, claims, answers.right, asked.questions.options, game.name, answers.who, answers.users)
    found = measure([played], "top1", level=0.95, permutations=200)
    assert found.low > found.chance


@pytest.mark.parametrize("attack", [AttributeJoint(epochs=20), Joint(epochs=20)], ids=lambda attack: attack.name)
def test_one_network_learns_who_sent_an_update_and_of_which_group_they_are(
    attack: AttributeJoint | Joint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[list[FloatArray]] = []

    def watched(*given: Any) -> Predict:
        """The network itself, of whose answers the attack claims only the first."""
        predict = fit(*given)

        def answer(asked: FloatArray) -> list[FloatArray]:
            answered.append(predict(asked))
            return answered[-1]

        return answer

    monkeypatch.setattr(sys.modules[type(attack).run.__module__], "fit", watched)
    played = play(attack, ANONYMOUS_SERVER, planted_trace(tmp_path, 0), 0)
    (heads,) = answered
    assert played.who is not None
    group, user = heads if attack.game == "attribute" else reversed(heads)
    assert group.shape[1] == 2 and (group.argmax(1) == played.who % 2).mean() > 0.65
    assert user.shape[1] == USERS and (user.argmax(1) == played.who).mean() > 0.3
    np.testing.assert_array_equal(played.claims, heads[0])


def test_questions_of_another_game_are_refused(tmp_path: Path) -> None:
    view = View(planted_trace(tmp_path, 0) / "trace", ANONYMOUS_SERVER)
    with pytest.raises(AttackError, match="answers the questions of the game 'attribute' only"):
        AttributeMlp().run(
            view,
            Prior.load(tmp_path / "prior"),
            Questions(updates=np.arange(3), options=("a", "b")),
            AttackContext(rng_for(0)),
        )


def test_joint_identification_needs_attributes_that_are_known(tmp_path: Path) -> None:
    run = planted_trace(tmp_path, 0)
    with pytest.raises(AttackError, match=r"no user has the attribute 'grop'; did you mean 'group'\?"):
        play(Joint(attributes=("grop",)), ANONYMOUS_SERVER, run, 0)
    prior = Prior.load(run / "prior")
    Prior(candidates=prior.candidates, examples=prior.examples, task=prior.task, outputs=prior.outputs).save(
        run / "prior"
    )
    with pytest.raises(AttackError, match=r"these users have none; use reid-mlp"):
        play(Joint(), ANONYMOUS_SERVER, run, 0)
