"""A user's own torch module in the federation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from reference import PlainLm, PlainMlp, client_update
from torch import nn

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.federation import Client, train
from fedleak.federation.model import Signature
from fedleak.federation.models.own import Own, wrap
from fedleak.federation.utility import evaluate
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

SIGNATURE = Signature(Task.CLASSIFY, (1, 4, 4), 3)
PLAN = FederationPlan(rounds=2, fraction=1.0, batch=4, lr=0.1)


def users(signature: Signature, sizes: tuple[int, ...] = (9, 1, 6)) -> list[Client]:
    rng = np.random.default_rng(0)
    return [
        Client(
            f"d-{i}",
            UserId(str(i)),
            -1,
            Examples(x=rng.integers(1, signature.outputs, (n, *signature.input_shape)))
            if signature.task is Task.NEXT_TOKEN
            else Examples(x=rng.random((n, *signature.input_shape), dtype=np.float32), y=rng.integers(0, 3, n)),
        )
        for i, n in enumerate(sizes)
    ]


def of(signature: Signature) -> nn.Module:
    return PlainMlp(16, 8, signature.outputs)


@pytest.mark.parametrize(
    ("make", "signature"),
    [(of, SIGNATURE), (lambda s: PlainLm(s.outputs, 4, 6), Signature(Task.NEXT_TOKEN, (7,), 11))],
    ids=["classify", "next-token"],
)
def test_it_is_trained_as_it_would_be_alone(make: Callable[[Signature], nn.Module], signature: Signature) -> None:
    model = wrap(make, signature)
    crowd = users(signature)
    names = {layer.name for layer in model.layout}
    assert "out" in names
    weights = model.init(np.random.default_rng(3))
    (first, _) = train(model, crowd, PLAN, (), None, 1, weights=weights, workers=2)
    # Weights of torch.nn.LSTM keep the names that torch gives them.
    plain = make(signature)
    for row, client in enumerate(first.clients):
        rng = rng_for(1, "batches", 1, crowd[client].id)
        layout = tuple(
            replace(layer, tensors=tuple((t.removesuffix("_l0"), s) for t, s in layer.tensors))
            for layer in model.layout
        )
        expected = client_update(plain, layout, weights, crowd[client].data, signature.task, PLAN, rng)
        for name in names:
            np.testing.assert_allclose(first.updates[name][row], expected[name], atol=1e-5)
            assert np.abs(expected[name]).max() > 1e-4


def test_the_same_seed_draws_the_same_weights_and_leaves_torchs_generator_alone() -> None:
    state = torch.random.get_rng_state()
    model = wrap(of, SIGNATURE)
    one, again, other = (model.init(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one["out"], other["out"])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_parameters_of_the_module_itself_and_frozen_ones_are_handled() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(16))
            self.frozen = nn.Linear(16, 16).requires_grad_(False)
            self.out = nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.out(self.frozen(x.flatten(1) * self.scale))
            return y

    model = wrap(lambda _: Scaled(), SIGNATURE)
    assert [(layer.name, layer.size) for layer in model.layout] == [("model", 16), ("out", 51)]
    *_, last = train(model, users(SIGNATURE), PLAN, (), None, 1)
    assert np.all(last.weights["model"] != 1)


def test_a_regressor_may_answer_without_a_last_axis() -> None:
    signature = Signature(Task.REGRESS, (4,), 1)
    model = wrap(lambda _: nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), signature)
    data = Examples(x=np.ones((5, 4), np.float32), y=np.zeros(5, np.float32))
    weights = {"0": np.array([1, 1, 1, 1, 0.5], np.float32)}
    assert evaluate(model, weights, data, Task.REGRESS) == pytest.approx(4.5)


class Batched(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm, self.out = norm, nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.norm(x.flatten(1)))
        return y


class Always(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.dropout(x)


class Numpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * np.random.default_rng().random() if self.training else x


class Unsaved(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += x.mean()
        return x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: "a string", "must return a torch.nn.Module; it returned str"),
        (lambda _: Batched(nn.BatchNorm1d(16, momentum=None)), r"cumulative average in 'norm'.*momentum"),
        (lambda _: Batched(Always()), "random numbers in evaluation mode too"),
        (lambda _: Batched(Numpy()), "different answers"),
        (lambda _: Batched(Unsaved()), "'norm.seen' in training, which is not in its state dict"),
        (lambda _: PlainMlp(16, 8, 7), r"\(3, 7\) where \(3, 3\) is needed"),
        (lambda _: PlainMlp(15, 8, 3), r"fails on examples of shape \(1, 4, 4\)"),
        (lambda _: nn.Flatten(), "no parameters"),
        (42, "not callable"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_the_first_round(make: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        wrap(make, SIGNATURE)


def test_batch_normalisation_without_running_state_is_accepted() -> None:
    norm = nn.BatchNorm1d(16, track_running_stats=False)
    *_, last = train(wrap(lambda _: Batched(norm), SIGNATURE), users(SIGNATURE, (8, 4)), PLAN, (), None, 1)
    assert all(np.isfinite(values).all() for values in last.weights.values())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:make", "no_such_module:make cannot be imported: No module named 'no_such_module'"),
        ("fedleak.core:make", "fedleak.core:make cannot be imported: .*'make'"),
        ("fedleak.core", "expected module:callable"),
    ],
)
def test_a_target_that_is_not_there_is_explained(target: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Own(target=target).build(SIGNATURE)


def test_a_target_is_imported_and_built() -> None:
    assert Own(target=f"{__name__}:of").build(SIGNATURE).layout[-1].name == "out"
