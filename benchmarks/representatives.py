"""Optimiser steps per second in the search for representatives: clients together, one by one, and as in the literature.

    python benchmarks/representatives.py [--clients 10] [--steps 20]

The third is a straightforward gradient inversion (Zhu et al., 2019, "Deep leakage from gradients"; Geiping et al.,
2020): a torch module for the model, autograd.grad with create_graph, torch.optim.Adam on one client's images, a clamp.
All three take as many steps on the same updates. One thread; CPU time, best of three.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from fedleak.attacks.reconstruct.labels import present, slots
from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.core import FloatArray, IntArray, Params, Task, rng_for
from fedleak.federation.federation import initial, make_clients, train
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.plan.plan import FederationPlan, PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.prepare import prepare

SHAPE = (1, 8, 8)


def federation(clients: int) -> tuple[Model, Params, Params]:
    """A model, and what so many clients make of it in one round."""
    prepared = prepare(MnistClients(source="digits", clients=clients, examples=30), PopulationPlan(prior="none"), 0)
    architecture = StridedCnn(channels=(8, 16), strides=(2, 1), activation="elu")
    model = architecture.build(Signature(Task.CLASSIFY, SHAPE, 10))
    plan = FederationPlan(rounds=1, fraction=1.0, lr=0.05, batch=10)
    (done,) = train(model, make_clients(prepared.shares, 0), plan, (), None, 0)
    return model, initial(model, 0), done.updates


class Plain(torch.nn.Module):
    """The same model as anybody would write it."""

    def __init__(self, model: Model, weights: Params) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 8, 3, 2, 1), torch.nn.Conv2d(8, 16, 3, 1, 1)
        self.out = torch.nn.Linear(256, 10)
        flat = [
            torch.from_numpy(weights[layer.name][layer.span(t)]).view(s)
            for layer in model.layout
            for t, s in layer.tensors
        ]
        with torch.no_grad():
            for parameter, values in zip(self.parameters(), flat, strict=True):
                parameter.copy_(values)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        hidden: torch.Tensor = F.elu(self.second(F.elu(self.first(x))))
        scores: torch.Tensor = self.out(hidden.flatten(1))
        return scores


def inversion(plain: Plain, update: list[torch.Tensor], labels: torch.Tensor, steps: int) -> None:
    """One client at a time: the loop of the papers on gradient inversion."""
    images = torch.rand(len(labels), *SHAPE, requires_grad=True)
    optimizer = torch.optim.Adam([images], lr=0.15)
    for _ in range(steps):
        optimizer.zero_grad()
        gradient = torch.autograd.grad(
            F.cross_entropy(plain(images), labels), list(plain.parameters()), create_graph=True
        )
        dot = sum((-g * u).sum() for g, u in zip(gradient, update, strict=True))
        sizes = [sum(g.square().sum() for g in parts) for parts in (gradient, update)]
        loss = 1 - dot / (sizes[0] * sizes[1]).sqrt()  # type: ignore[union-attr]
        across, down = images.diff(dim=3)[:, :, :-1], images.diff(dim=2)[..., :-1]
        loss = loss + 1.5e-4 * ((across.square() + down.square() + 1e-12) ** 1.25).sum()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            images.clamp_(0, 1)


def seconds(work: Callable[[], object]) -> float:
    """The least CPU time of three."""
    times = []
    for _ in range(3):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    """Print steps per second (of all clients) and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model, before, updates = federation(asked.clients)
    labels, _ = slots(present(model.layout, updates).shares, 1)
    settings = Inversion(optimizer="adam", iterations=asked.steps)

    def seek(rows: Params, own: IntArray) -> FloatArray:
        return representatives(model, before, rows, settings, shape=SHAPE, rng=rng_for(0), labels=own).images

    def one_by_one() -> None:
        for i in range(asked.clients):
            seek({name: values[i : i + 1] for name, values in updates.items()}, labels[i : i + 1])

    plain = Plain(model, before)
    cut = [
        [
            torch.from_numpy(np.array(updates[la.name][i, la.span(t)])).view(s)
            for la in model.layout
            for t, s in la.tensors
        ]
        for i in range(asked.clients)
    ]

    def literature() -> None:
        for update, own in zip(cut, labels, strict=True):
            inversion(plain, update, torch.from_numpy(own[own >= 0]), asked.steps)

    took = {
        "clients together": seconds(lambda: seek(updates, labels)),
        "one client after another": seconds(one_by_one),
        "gradient inversion as in the literature": seconds(literature),
    }
    every = asked.clients * asked.steps
    for name, cpu in took.items():
        print(f"{name:42s} {every / cpu:8.0f} steps/s   {cpu / took['clients together']:5.2f}x the time")


if __name__ == "__main__":
    main()
