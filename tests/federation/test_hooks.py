"""What a defence can change, hook by hook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_runs import PLAN, Everything, run, same, small_model, some, some_clients

from fedleak.core import Params, UserId
from fedleak.federation.federation import Client, defended, initial, make_clients
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Model, Tensors
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

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        assert background is not None
        return Examples.concat([data.take([0]), background.take(rng.permutation(len(background))[:2])])


class Frozen:
    """Wraps a model and starts it from ones."""

    def __init__(self, model: Model) -> None:
        self.inner, self.layout, self.group = model, model.layout, model.group

    def init(self, rng: np.random.Generator) -> Params:
        return {name: np.ones_like(values) for name, values in self.inner.init(rng).items()}

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        return self.inner.forward(weights, x)


@dataclass(frozen=True)
class Ones(Defence):
    name: ClassVar[str] = "ones"

    def on_model(self, model: Model) -> Model:
        return Frozen(model)


@dataclass(frozen=True)
class ConstantGradient(Defence):
    name: ClassVar[str] = "constant-gradient"

    def on_step(self, gradients: Tensors, weights: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        assert all(len(g) == len(weights[key]) == len(rngs) for key, g in gradients.items())
        return {key: torch.ones_like(g) for key, g in gradients.items()}


@dataclass(frozen=True)
class Double(Defence):
    name: ClassVar[str] = "double"

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {name: 2 * values for name, values in update.items()}


@dataclass(frozen=True)
class Hide(Defence):
    name: ClassVar[str] = "hide"

    def on_channel(self, updates: Params, rng: np.random.Generator) -> Params:
        return {name: np.repeat(rows.mean(0, keepdims=True), len(rows), 0) for name, rows in updates.items()}


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


def test_on_model_changes_the_model(model: Model, few: tuple[Client, ...]) -> None:
    first, *_ = run(model, few, Ones())
    for name, values in first.weights.items():
        np.testing.assert_array_equal(values, 1 + first.aggregate[name])
    assert isinstance(defended(model, [Ones()]), Frozen)


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


def test_on_channel_changes_what_the_server_receives(model: Model, few: tuple[Client, ...]) -> None:
    plain, hidden = run(model, few)[0], run(model, few, Hide())[0]
    for name, rows in plain.updates.items():
        assert hidden.updates[name].shape == rows.shape
        np.testing.assert_allclose(hidden.aggregate[name], rows.mean(0), atol=1e-6)


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
