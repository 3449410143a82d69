"""Fedleak's embedded engine: `embedded.py JOB.npz MODEL WORKERS REPEAT`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from job import (
    BATCH,
    CLIENTS,
    CLIP,
    LENGTH,
    LR,
    PER_ROUND,
    ROUNDS,
    VOCABULARY,
    Arrays,
    accuracy,
    held_out,
    load,
    now,
    report,
    start,
)
from torch import nn

from fedleak.core import Params, Task, UserId
from fedleak.federation.federation import Client, train
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.recurrent import WordLm
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

MODELS: dict[str, Model] = {
    "mlp-5k": Mlp(hidden=(64,)).build(Signature(Task.CLASSIFY, (1, 8, 8), 10)),
    "mlp-80k": Mlp(hidden=(100,)).build(Signature(Task.CLASSIFY, (1, 28, 28), 10)),
    "cnn": Cnn().build(Signature(Task.CLASSIFY, (1, 28, 28), 10)),
    "lstm": WordLm().build(Signature(Task.NEXT_TOKEN, (LENGTH,), VOCABULARY)),
}


@dataclass(frozen=True)
class Given(Defence):
    """Selects the clients that the job names, so that every contestant trains the same."""

    selected: tuple[tuple[int, ...], ...]
    name: ClassVar[str] = "given"

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        return self.selected[len(past)]


def initial(model: Model, job: Arrays) -> Params:
    suffix = {"weight_ih": "_l0", "weight_hh": "_l0", "bias_ih": "_l0", "bias_hh": "_l0"}
    return {
        layer.name: np.concatenate([job[f"w/{layer.name}.{t}{suffix.get(t, '')}"].ravel() for t, _ in layer.tensors])
        for layer in model.layout
    }


def into(module: nn.Module, model: Model, weights: Params) -> nn.Module:
    """Put the final weights into the shared module, so that accuracy is measured by the same code for all."""
    parameters = {name.removesuffix("_l0"): value for name, value in module.named_parameters()}
    with torch.no_grad():
        for layer in model.layout:
            for tensor, shape in layer.tensors:
                value = torch.from_numpy(weights[layer.name][layer.span(tensor)])
                parameters[f"{layer.name}.{tensor}"].copy_(value.view(shape))
    return module


def main(path: str, name: str, workers: str, repeat: str) -> None:
    job = load(Path(path))
    labelled = name != "lstm"
    clients = [
        Client(f"d-{i:06x}", UserId(str(i)), -1, Examples(x=job["x"][i], y=job["y"][i] if labelled else None))
        for i in range(CLIENTS)
    ]
    plan = FederationPlan(rounds=ROUNDS, fraction=PER_ROUND / CLIENTS, batch=BATCH, lr=LR[name], clip=CLIP.get(name))
    model = MODELS[name]
    given = Given(tuple(tuple(row) for row in job["selected"].tolist()))
    for run in range(int(repeat)):
        began, marks = now(), []
        weights = initial(model, job)
        for round_ in train(model, clients, plan, [given], None, run, weights=weights, workers=int(workers)):
            marks.append(now())
            weights = round_.weights
        report(began, marks, accuracy(name, into(start(name, job), model, weights), *held_out(job)))


if __name__ == "__main__":
    main(*sys.argv[1:])
