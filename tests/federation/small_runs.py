"""Small federations for the tests of this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fedleak.core import FloatArray, Params, Task, UserId
from fedleak.federation.engines.local_step import LocalStep
from fedleak.federation.federation import Client, Round, train
from fedleak.federation.hooks import Defence, PublicData
from fedleak.federation.model import Model, Signature, Tensors
from fedleak.federation.models.mlp import Mlp
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

PLAN = FederationPlan(rounds=3, fraction=0.5, batch=4, lr=0.1)
SIZES = (9, 1, 4, 17, 6, 12)


def small_model() -> Model:
    return Mlp(hidden=(6,)).build(Signature(Task.CLASSIFY, (5,), 3))


def some(n: int, rng: np.random.Generator) -> Examples:
    return Examples(x=rng.random((n, 5), dtype=np.float32), y=rng.integers(0, 3, n))


def some_clients() -> tuple[Client, ...]:
    """Six clients of one user each, of which each holds another number of examples."""
    rng = np.random.default_rng(0)
    return tuple(Client(f"d-{i:06x}", UserId(f"u{i}"), -1, some(n, rng)) for i, n in enumerate(SIZES))


def run(
    model: Model, few: Sequence[Client], *defences: Defence, plan: FederationPlan = PLAN, **more: Any
) -> list[Round]:
    return list(train(model, few, plan, defences, more.pop("background", None), 1, **more))


def same(a: Round, b: Round) -> bool:
    """Whether two rounds are the same to the byte."""
    parts: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = [
        (a.clients, b.clients),
        (a.sizes, b.sizes),
    ]
    for mine, others in ((a.updates, b.updates), (a.aggregate, b.aggregate), (a.weights, b.weights)):
        assert list(mine) == list(others)
        parts += [(mine[name], others[name]) for name in mine]
    return a.number == b.number and all(x.tobytes() == y.tobytes() for x, y in parts)


@dataclass(frozen=True)
class Everything(Defence):
    """Random at every hook that draws."""

    name: ClassVar[str] = "everything"

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        return [d.take(rng.integers(0, len(d), len(d))) for d, rng in zip(data, rngs, strict=True)]

    def on_step(self, step: LocalStep, rngs: Sequence[np.random.Generator]) -> Tensors:
        for g in step.gradients.values():
            g += torch.from_numpy(np.stack([rng.normal(0, 0.1, g.shape[1:]) for rng in rngs]).astype(np.float32))
        return step.gradients

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        return {name: _noisy(values, rng) for name, values in update.items()}

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        return {name: _noisy(values, rng) for name, values in aggregate.items()}

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        return [s for s in selected if rng.random() < 0.8]


def _noisy(values: FloatArray, rng: np.random.Generator) -> FloatArray:
    return (values + rng.normal(0, 0.01, values.shape)).astype(np.float32)
