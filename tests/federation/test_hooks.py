"""What a defence can change, hook by hook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_runs import PLAN, Everything, run, same, small_model, some, some_clients

from fedleak.core import FloatArray, Params, UserId
from fedleak.defences.dp_sgd import DpSgd
from fedleak.errors import PlanError, TrainingError
from fedleak.federation.engines.local_step import LocalStep
from fedleak.federation.federation import Client, initial, make_clients
from fedleak.federation.hooks import Added, Defence, Loss, PublicData
from fedleak.federation.model import Model, Tensors
from fedleak.plan.together import check_together
from fedleak.population.population import Examples, Share, User


@pytest.fixture
def model() -> Model:
    return small_model()


@pytest.fixture
def few() -> tuple[Client, ...]:
    return some_clients()


# Each of these acts at one hook, in a way whose effect on the record can be told.
@dataclass(frozen=True)
class Shorten(Defence):
    name: ClassVar[str] = "shorten"

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        assert public is not None
        added = [public.examples.take(rng.permutation(len(public.examples))[:2]) for rng in rngs]
        return [Examples.concat([own.take([0]), more]) for own, more in zip(data, added, strict=True)]


@dataclass(frozen=True)
class ConstantGradient(Defence):
    name: ClassVar[str] = "constant-gradient"

    def on_step(self, step: LocalStep, rngs: Sequence[np.random.Generator]) -> Tensors:
        assert all(len(g) == len(step.weights[key]) == len(rngs) for key, g in step.gradients.items())
        return {key: torch.ones_like(g) for key, g in step.gradients.items()}


@dataclass(frozen=True)
class Double(Defence):
    name: ClassVar[str] = "double"

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {name: 2 * values for name, values in update.items()}


@dataclass(frozen=True)
class Hide(Defence):
    name: ClassVar[str] = "hide"

    def on_aggregation(self, updates: Params, shares: FloatArray, rng: np.random.Generator) -> Added:
        means = {name: rows.mean(0) for name, rows in updates.items()}
        seen = {name: np.tile(mean, (len(shares), 1)) for name, mean in means.items()}
        return Added(seen, means, np.ones(len(shares), dtype=np.bool_))


@dataclass(frozen=True)
class Halve(Defence):
    name: ClassVar[str] = "halve"

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        assert shares.sum() == pytest.approx(1)
        return {name: values * np.float32(0.5) for name, values in aggregate.items()}


@dataclass(frozen=True)
class NoLoss(Defence):
    name: ClassVar[str] = "no-loss"

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        return lambda touches: 0 * loss(touches)


@dataclass(frozen=True)
class StayAway(Defence):
    name: ClassVar[str] = "stay-away"
    until: int = 2

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        return [] if len(past) + 1 < self.until else selected[:1]


def test_on_data_changes_what_each_client_trains_on(model: Model, few: tuple[Client, ...]) -> None:
    background = some(5, np.random.default_rng(9))
    for round_ in run(model, few, Shorten(), background=background):
        assert set(round_.sizes.tolist()) == {3}


def test_on_step_changes_the_gradients(model: Model, few: tuple[Client, ...]) -> None:
    for round_ in run(model, few, ConstantGradient()):
        for rows in round_.updates.values():
            steps = -(-round_.sizes // PLAN.batch)
            np.testing.assert_allclose(rows, -PLAN.lr * steps[:, None] * np.ones_like(rows), rtol=1e-4)


def test_clients_that_do_not_defend_send_what_they_would_have_sent(model: Model, few: tuple[Client, ...]) -> None:
    background = some(5, np.random.default_rng(9))
    mixed = tuple(replace(client, defended=place % 2 == 0) for place, client in enumerate(few))
    for defence in (Shorten(), ConstantGradient(), Double()):
        plain = run(model, few, background=background)[0]
        changed = run(model, mixed, defence, background=background)[0]
        for row, client in enumerate(plain.clients):
            same = all(np.allclose(plain.updates[n][row], changed.updates[n][row], atol=1e-7) for n in plain.updates)
            assert same is not mixed[client].defended


def test_shadow_clients_defend_only_for_an_adaptive_adversary() -> None:
    data = some(4, np.random.default_rng(0))
    shares = [Share(User(UserId(name), data), data, data) for name in "ab"]
    assert {(d.shadow >= 0, d.defended) for d in make_clients(shares, 0)} == {(True, False), (False, True)}
    assert all(d.defended for d in make_clients(shares, 0, adaptive=True))


def test_on_update_changes_what_a_client_sends(model: Model, few: tuple[Client, ...]) -> None:
    plain, doubled = run(model, few)[0], run(model, few, Double(), Double())[0]
    for name, rows in plain.updates.items():
        np.testing.assert_array_equal(doubled.updates[name], 4 * rows)


def test_on_loss_changes_what_a_step_minimises(model: Model, few: tuple[Client, ...]) -> None:
    assert all(not rows.any() for rows in run(model, few, NoLoss())[0].updates.values())


def test_on_aggregation_changes_what_the_server_sees_and_how_it_adds_up(model: Model, few: tuple[Client, ...]) -> None:
    plain, hidden = run(model, few)[0], run(model, few, Hide())[0]
    for name, rows in plain.updates.items():
        assert hidden.updates[name].shape == rows.shape and (hidden.updates[name] == hidden.updates[name][0]).all()
        np.testing.assert_allclose(hidden.aggregate[name], rows.mean(0), atol=1e-6)


def test_on_aggregate_changes_how_far_the_server_moves_and_no_update(model: Model, few: tuple[Client, ...]) -> None:
    plain, half = run(model, few)[0], run(model, few, Halve())[0]
    for name, rows in plain.updates.items():
        np.testing.assert_array_equal(half.updates[name], rows)
        np.testing.assert_array_equal(half.aggregate[name], plain.aggregate[name] / 2)


def test_single_examples_cannot_be_had_once_another_defence_changed_the_step(
    model: Model, few: tuple[Client, ...]
) -> None:
    with pytest.raises(PlanError, match="'constant-gradient' changes the local step before"):
        check_together([ConstantGradient(), DpSgd(noise=1.0)], "plan")
    with pytest.raises(TrainingError, match="dp-sgd"):
        run(model, few, ConstantGradient(), DpSgd(noise=1.0))
    assert run(model, few, DpSgd(noise=1.0), ConstantGradient())


def test_on_participation_changes_who_takes_part(model: Model, few: tuple[Client, ...]) -> None:
    first, second, third = run(model, few, StayAway())
    assert [len(r.clients) for r in (first, second, third)] == [0, 1, 1]
    for name, values in initial(model, 1).items():
        np.testing.assert_array_equal(first.weights[name], values)
        assert np.any(second.weights[name] != values)


def test_randomness_at_the_hooks_is_the_same_on_two_workers(model: Model, few: tuple[Client, ...]) -> None:
    plan = replace(PLAN, fraction=1.0)
    model.group = 2
    one, two = run(model, few, Everything(), plan=plan), run(model, few, Everything(), plan=plan, workers=2)
    assert all(same(a, b) for a, b in zip(one, two, strict=True))
    assert not same(one[0], run(model, few, plan=plan)[0])
