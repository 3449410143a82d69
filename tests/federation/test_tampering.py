"""Capabilities that change a run: what an isolated client is sent, what a malicious one sends, and that it resumes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_runs import PLAN, run, same, small_model, some_clients

from fedleak.core import Params, Task, UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.affiliated_server import AffiliatedServer
from fedleak.federation.federation import Client, initial
from fedleak.federation.gan_client import ClassGan, Joined
from fedleak.federation.model import Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.strided import StridedCnn
from fedleak.federation.tampering import Isolation, Tampering, victims
from fedleak.federation.utility import evaluate
from fedleak.plan.plan import FederationPlan, IsolatePlan, JoinPlan
from fedleak.population.population import Examples

EVERYBODY = replace(PLAN, fraction=1.0, rounds=4)


def test_an_isolated_client_trains_a_model_that_only_its_own_updates_move() -> None:
    few, model, victim = some_clients(), small_model(), 3
    rounds = run(model, few, plan=EVERYBODY, tampering=Tampering((victim,)))
    # A federation of that client alone, with a weight of one, is what it must have seen.
    alone = run(model, [few[victim]], plan=EVERYBODY)
    rest = run(model, [d for i, d in enumerate(few) if i != victim], plan=EVERYBODY)
    for together, own, others in zip(rounds, alone, rest, strict=True):
        row = together.clients.tolist().index(victim)
        for name, rows in together.updates.items():
            assert np.allclose(rows[row], own.updates[name][0], atol=1e-6)
            # The shared model goes on without it, as if it had never been there.
            assert np.allclose(together.weights[name], others.weights[name], atol=1e-6)


def test_where_nobody_is_isolated_the_run_is_the_same_to_the_byte() -> None:
    few, model = some_clients(), small_model()
    plain, empty = run(model, few), run(model, few, tampering=Tampering())
    assert all(same(a, b) for a, b in zip(plain, empty, strict=True))


def test_a_run_with_an_isolated_client_resumes_to_the_same_bytes() -> None:
    few, model, tampering = some_clients(), small_model(), Tampering((0, 3))
    whole = run(model, few, plan=EVERYBODY, tampering=tampering)
    isolation = Isolation(initial(model, 1), tampering.isolated)
    for done in whole[:2]:
        for row, client in enumerate(done.clients.tolist()):
            if client in tampering.isolated:
                isolation.move(client, {name: rows[row] for name, rows in done.updates.items()})
    rest = run(model, few, plan=EVERYBODY, tampering=tampering, isolation=isolation, start=2, weights=whole[1].weights)
    assert all(same(a, b) for a, b in zip(whole[2:], rest, strict=True))


def test_victims_are_drawn_by_the_seed_or_named_and_must_be_there() -> None:
    names = [f"d-{i}" for i in range(8)]
    owners = {name: f"client-{i}" for i, name in enumerate(names)}
    drawn = victims(IsolatePlan(victims=3), owners, names, 1)
    assert drawn == victims(IsolatePlan(victims=3), owners, names, 1) and len(set(drawn)) == 3
    assert any(victims(IsolatePlan(victims=3), owners, names, seed) != drawn for seed in range(2, 6))
    assert victims(IsolatePlan(user="client-5"), owners, names, 1) == (5,)
    with pytest.raises(PlanError, match="user = 'client-x': there is no such user in the federation; did you mean"):
        victims(IsolatePlan(user="client-x"), owners, names, 1)
    with pytest.raises(PlanError, match=r"at least two of the .* clients must remain"):
        victims(IsolatePlan(victims=7), owners, names, 1)


class Doubling:
    """A server that trains isolated models further, as plainly as can be seen."""

    def improve(self, client: int, weights: Params) -> Params:
        return {name: 2 * values for name, values in weights.items()}


def test_what_the_affiliated_server_makes_of_an_update_is_what_the_victim_is_sent_next() -> None:
    few, model, victim = some_clients(), small_model(), 3
    [first, second] = run(
        model, few, plan=replace(EVERYBODY, rounds=2), tampering=Tampering((victim,), affiliate=Doubling())
    )
    row = first.clients.tolist().index(victim)
    sent = {name: 2 * (w + first.updates[name][row]) for name, w in initial(model, 1).items()}
    # The same round of a federation of that client alone, from these weights.
    [expected] = run(model, [few[victim]], plan=replace(EVERYBODY, rounds=2), start=1, weights=sent)
    row = second.clients.tolist().index(victim)
    for name, rows in second.updates.items():
        assert np.allclose(rows[row], expected.updates[name][0], atol=1e-6)


CLASSES, SHAPE = 3, (1, 8, 8)
JOIN = JoinPlan(fakes=6, own=4, steps=2, width=0.02)


def images(count: int) -> Examples:
    rng = np.random.default_rng(count)
    return Examples(x=rng.random((count, *SHAPE), dtype=np.float32), y=np.arange(count) % CLASSES)


def test_a_malicious_client_sends_generated_images_as_a_class_that_nobody_has() -> None:
    model = Cnn(channels=(2, 2), hidden=4).build(Signature(Task.CLASSIFY, SHAPE, CLASSES + 1))
    honest = [Client(f"d-{i}", UserId(f"u{i}"), -1, images(10)) for i in range(3)]
    blank = Examples(x=np.zeros((10, *SHAPE), dtype=np.float32), y=np.zeros(10, dtype=np.int64))
    clients = [*honest, Client("d-evil", UserId("adversary"), -1, blank)]
    plan = FederationPlan(rounds=3, fraction=1.0, batch=5)

    def joined() -> Joined:
        return Joined(ClassGan(model, SHAPE, CLASSES, JOIN, 7), 3, images(20))

    first, again = (run(model, clients, plan=plan, tampering=Tampering(newcomer=joined())) for _ in range(2))
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    # What it trains on changes from round to round, and whoever has the models can repeat it.
    seen = joined()
    starts = [initial(model, 1), *(done.weights for done in first[:-1])]
    shown = [seen.data(n, weights) for n, weights in enumerate(starts, 1)]
    for data in shown:
        assert data.y is not None and data.y.tolist()[:6] == [CLASSES] * 6 and data.y.max() == CLASSES
        assert len(data) == 10 and data.x.min() >= 0 and data.x.max() <= 1
    assert not np.array_equal(shown[0].x[:6], shown[1].x[:6]) and np.array_equal(shown[0].x[6:], shown[1].x[6:])
    assert blank.x.max() == 0


def test_the_generator_learns_to_draw_what_the_model_takes_for_a_class() -> None:
    model = Cnn(channels=(2, 2), hidden=8).build(Signature(Task.CLASSIFY, SHAPE, CLASSES + 1))
    rng = np.random.default_rng(0)
    bars = np.zeros((90, *SHAPE), dtype=np.float32)
    for i in range(90):
        bars[i, 0, :, 2 * (i % 3) : 2 * (i % 3) + 3] = 0.5 + 0.5 * rng.random()
    data = Examples(x=bars, y=np.arange(90) % 3)
    [*_, last] = run(model, [Client("d", UserId("u"), -1, data)], plan=FederationPlan(rounds=30, fraction=1, lr=0.1))
    gan = ClassGan(model, SHAPE, CLASSES, replace(JOIN, steps=300, width=0.1), 3)
    before = gan.draw(30, rng_for(0)).x
    gan.learn(1, last.weights)
    after = gan.draw(30, rng_for(0))
    right = evaluate(model, last.weights, after, Task.CLASSIFY)
    assert right > 0.9 > evaluate(model, last.weights, Examples(x=before, y=after.y), Task.CLASSIFY)


GAN = IsolatePlan(sent="discriminator", steps=4, width=0.02)
NETWORK, SIGNATURE = (
    StridedCnn(channels=(2, 2), strides=(2, 1), activation="elu"),
    Signature(Task.CLASSIFY, SHAPE, CLASSES),
)


def affiliated(plan: IsolatePlan = GAN) -> AffiliatedServer:
    return AffiliatedServer(NETWORK, SIGNATURE, plan, images(20), 4, 7)


def test_the_victim_is_sent_the_discriminator_and_its_update_moves_it() -> None:
    model = NETWORK.build(SIGNATURE)
    clients = [Client(f"d-{i}", UserId(f"u{i}"), -1, images(10)) for i in range(4)]
    plan, victim = FederationPlan(rounds=3, fraction=1.0, batch=5), 2
    server = affiliated()
    isolation = Isolation(initial(model, 1), (victim,), server)
    tampering = Tampering((victim,), affiliate=server)
    rounds = run(model, clients, plan=plan, tampering=tampering, isolation=isolation)
    critic = server.gans[victim].critic
    # One set of weights: what the victim would be sent next is D, all but the head that tells real from generated.
    assert all(np.array_equal(isolation.models[victim][name], w) for name, w in critic.classifier().items())
    assert critic.forward(torch.zeros(1, *SHAPE)).shape == (1, CLASSES + 1)
    # Layers that its tasks share are no sum of the victim's updates: the server has trained them, too. Categories are
    # learnt from the victim alone.
    for name, start in initial(model, 1).items():
        added = start + sum(done.updates[name][done.clients.tolist().index(victim)] for done in rounds)
        assert np.allclose(isolation.models[victim][name], added, atol=1e-5) == (name == "out")
    # Whoever has the updates and the auxiliary set can repeat it.
    again = Isolation(initial(model, 1), (victim,), affiliated())
    for done in rounds:
        again.move(victim, {name: rows[done.clients.tolist().index(victim)] for name, rows in done.updates.items()})
    assert all(np.array_equal(again.models[victim][name], w) for name, w in isolation.models[victim].items())


def test_a_run_that_sends_its_discriminator_resumes_to_the_same_bytes() -> None:
    model = NETWORK.build(SIGNATURE)
    clients = [Client(f"d-{i}", UserId(f"u{i}"), -1, images(10)) for i in range(4)]
    plan, tampering = FederationPlan(rounds=3, fraction=1.0, batch=5), Tampering((1,), affiliate=affiliated())
    whole = run(model, clients, plan=plan, tampering=tampering)
    resumed = Isolation(initial(model, 1), (1,), affiliated())
    resumed.move(1, {name: rows[whole[0].clients.tolist().index(1)] for name, rows in whole[0].updates.items()})
    tampering = Tampering((1,), affiliate=resumed.affiliate)
    rest = run(model, clients, plan=plan, tampering=tampering, isolation=resumed, start=1, weights=whole[0].weights)
    assert all(same(a, b) for a, b in zip(whole[1:], rest, strict=True))


def test_what_cannot_be_generated_or_drawn_is_refused() -> None:
    with pytest.raises(PlanError, match=r"\[isolate\] sent = 'discriminator': the server needs auxiliary images"):
        AffiliatedServer(NETWORK, SIGNATURE, GAN, None, 4, 7)
    with pytest.raises(PlanError, match=r"\[isolate\] sent = 'discriminator': the examples have shape \(5,\)"):
        AffiliatedServer(NETWORK, Signature(Task.CLASSIFY, (5,), 3), GAN, images(4), 4, 7)
    flat = small_model()
    with pytest.raises(PlanError, match="needs a data set of images"):
        ClassGan(flat, (5,), 3, JOIN, 1)
    model = Cnn(channels=(2, 2), hidden=4).build(Signature(Task.CLASSIFY, SHAPE, CLASSES + 1))
    with pytest.raises(PlanError, match=r"own = 4: .*has 0"):
        Joined(ClassGan(model, SHAPE, CLASSES, JOIN, 7), 3, None)
