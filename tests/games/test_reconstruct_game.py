"""The game of images: who is asked about, what an attack is given, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedleak.attacks.reconstruct.victim_context import Scene
from fedleak.core import Capability, rng_for
from fedleak.errors import AttackError, NotVisible
from fedleak.federation.federation import Client, train
from fedleak.games.game import GameInstance
from fedleak.games.reconstruct import ImageQuestions, Reconstruct
from fedleak.games.traces.portraits import CLASSES, CLIENTS, PLAN, SHAPE, VICTIMS, write_images
from fedleak.population.population import Examples
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ACTIVE_SERVER, ANONYMOUS_SERVER, MALICIOUS_CLIENT, SERVER

Run = tuple[Trace, Truth, Prior]


def opened(folder: Path) -> Run:
    return Trace.open(folder / "trace"), Truth.load(folder / "truth"), Prior.load(folder / "prior")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return opened(write_images(tmp_path_factory.mktemp("plain"), 0, leak=True))


def ask(run: Run, game: Reconstruct, seed: int = 3) -> GameInstance:
    return game.ask(*run, rng_for(seed, "game"))


def test_a_question_is_any_update_of_a_victim_and_every_update_is_seen(run: Run) -> None:
    trace, truth, _ = run
    asked = ask(run, Reconstruct(victims=5, samples=7))
    questions = asked.questions
    assert isinstance(questions, ImageQuestions)
    assert len(questions) == 5 and questions.samples == 7 and questions.shape == SHAPE
    assert questions.classes == CLASSES and questions.choices == CLIENTS
    owners = [str(truth.client_user[trace.header.clients[int(trace.client[row])]]) for row in questions.updates]
    assert owners == [asked.answers.users[user] for user in asked.answers.who]
    asked_rounds = {int(n) for seed in range(4) for n in trace.round[ask(run, Reconstruct(), seed).questions.updates]}
    assert asked_rounds == set(range(1, trace.rounds + 1)), "the last would say that no later update is the victim's"
    for adversary in (SERVER, ANONYMOUS_SERVER):
        view, seen = asked.look(trace.folder, adversary)
        assert len(view.updates) == len(trace.round)
        assert np.array_equal(seen.updates, questions.updates)


def test_the_attack_is_given_the_auxiliary_set_and_nobodys_data(run: Run) -> None:
    asked = ask(run, Reconstruct())
    assert asked.prior.candidates == () and asked.prior.background is None
    assert isinstance(asked.questions, ImageQuestions) and asked.answers.evidence is not None
    public = {image.tobytes() for image in asked.questions.auxiliary.x}
    for held in (*asked.answers.evidence.held.examples, *asked.answers.evidence.bystanders.examples):
        assert not public & {image.tobytes() for image in held.x}


def test_victims_differ_in_the_property_that_they_are_judged_by(run: Run) -> None:
    asked = ask(run, Reconstruct(victims=3, attribute="rotation"))
    name, *values = asked.answers.judged
    assert name == "rotation" and len(values) == CLIENTS
    assert len({values[user] for user in asked.answers.who}) == min(3, len(set(values)))


def test_isolated_clients_are_the_victims_and_a_newcomer_is_none(tmp_path: Path) -> None:
    isolated = opened(write_images(tmp_path / "isolated", 0, leak=True, power=Capability.ISOLATE))
    asked = ask(isolated, Reconstruct(victims=2))
    [told] = isolated[0].header.tampering
    view, questions = asked.look(isolated[0].folder, ACTIVE_SERVER)
    victims = {isolated[0].header.clients[int(view.updates.handle[row])] for row in questions.updates}
    assert victims == set(told["clients"]) and len(victims) == VICTIMS
    assert view.isolated == {int(view.updates.handle[row]) for row in questions.updates}
    assert asked.look(isolated[0].folder, SERVER)[0].isolated == frozenset()
    joined = opened(write_images(tmp_path / "joined", 0, leak=True, power=Capability.JOIN))
    everybody = ask(joined, Reconstruct(victims=100))
    assert len(everybody.questions) == CLIENTS
    assert everybody.look(joined[0].folder, MALICIOUS_CLIENT)[0].joined["client"] == "d-joined"


def test_an_isolated_model_is_its_own_updates_added_up(tmp_path: Path) -> None:
    run = opened(write_images(tmp_path, 0, leak=True, power=Capability.ISOLATE))
    view, questions = ask(run, Reconstruct()).look(run[0].folder, ACTIVE_SERVER)
    victim = int(view.updates.handle[questions.updates[0]])
    mine = np.flatnonzero(view.updates.handle == victim)
    for layer in view.layout:
        moved = view.updates.layer(layer.name)[mine[:2]].sum(axis=0)
        assert np.allclose(view.started_from(victim, 3)[layer.name], view.snapshot(0)[layer.name] + moved, atol=1e-5)
        assert not np.allclose(view.started_from(victim, 3)[layer.name], view.snapshot(2)[layer.name], atol=1e-5)
    other = next(int(h) for h in view.updates.handle if int(h) not in view.isolated)
    assert all(np.array_equal(view.started_from(other, 3)[n], view.snapshot(2)[n]) for n in view.snapshot(2))


def test_a_discriminator_that_was_sent_is_repeated_from_the_victims_updates(tmp_path: Path) -> None:
    run = opened(write_images(tmp_path, 0, leak=True, power=Capability.ISOLATE, discriminator=2))
    view, questions = ask(run, Reconstruct()).look(run[0].folder, ACTIVE_SERVER)
    assert isinstance(questions, ImageQuestions)
    scene = Scene(view, questions)
    assert scene.replay is not None
    victim = int(view.updates.handle[questions.updates[0]])
    row = int(np.flatnonzero((view.updates.handle == victim) & (view.updates.round == 3))[0])
    # What the client sent in that round is what training on its data makes of these weights.
    name, evidence = run[0].header.clients[victim], run[1].evidence
    assert evidence is not None
    held = dict(zip(evidence.held.candidates, evidence.held.examples, strict=True))
    client = Client(name, run[1].client_user[name], -1, held[run[1].client_user[name]])
    done = next(train(scene.model, [client], PLAN, (), None, 0, start=2, weights=scene.start(row)))
    for layer in view.layout:
        assert np.allclose(done.updates[layer.name][0], view.updates.layer(layer.name)[row], atol=1e-6)
    with pytest.raises(NotVisible, match="was sent the server's discriminator"):
        view.started_from(victim, 3)


def without_class(prior: Prior) -> Prior:
    assert prior.background is not None
    shown = prior.background.examples
    assert shown.y is not None
    return replace(prior, background=Background(examples=shown.take(np.flatnonzero(shown.y != 4)), shows={}))


def test_what_cannot_be_asked_is_refused_and_explained(run: Run) -> None:
    trace, truth, prior = run
    rng = rng_for(0)
    with pytest.raises(AttackError, match=r"auxiliary set of \d+ images has none of class 4; give it more"):
        Reconstruct().ask(trace, truth, without_class(prior), rng)
    with pytest.raises(AttackError, match="the server has no auxiliary images"):
        Reconstruct().ask(trace, truth, replace(prior, background=None), rng)
    with pytest.raises(AttackError, match="did not store the clients' data"):
        Reconstruct().ask(trace, replace(truth, evidence=None), prior, rng)
    with pytest.raises(AttackError, match=r"attribute = 'rotatoin', which .* did you mean 'rotation'"):
        Reconstruct(attribute="rotatoin").ask(trace, truth, prior, rng)
    alone = replace(truth, client_user=dict(list(truth.client_user.items())[:1]))
    with pytest.raises(AttackError, match=r"1 client\(s\) sent an update; .* at least two"):
        Reconstruct().ask(trace, alone, prior, rng)
    flat = Trace.open(trace.folder)
    flat.header = msgspec.structs.replace(trace.header, settings={**trace.header.settings, "input_shape": [64]})
    with pytest.raises(AttackError, match="images can be reconstructed where a model classifies images"):
        Reconstruct().ask(flat, truth, prior, rng)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (np.zeros((5, 3, *SHAPE)), "expected images"),
        (np.full((5, 4, *SHAPE), np.nan), "not all between 0 and 1"),
        (np.full((5, 4, *SHAPE), 1.5), "not all between 0 and 1"),
    ],
)
def test_what_is_no_image_is_refused(claims: np.ndarray, message: str) -> None:
    questions = ImageQuestions(
        updates=np.arange(5),
        options=(),
        samples=4,
        shape=SHAPE,
        classes=CLASSES,
        auxiliary=Examples(x=np.zeros((1, *SHAPE))),
    )
    with pytest.raises(AttackError, match=message):
        Reconstruct().check(claims, questions, "mine")


def test_the_evidence_is_for_its_owner_only(tmp_path: Path) -> None:
    folder = write_images(tmp_path, 0, leak=True)
    kept = [path for path in (folder / "truth").rglob("*") if path.is_file()]
    assert len(kept) > 4
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)
