"""How well gradient inversion recovers MNIST digits, on the cases that other toolkits are measured on.

A strided-cnn [8, 16, 32] with ELU, learning rate 0.02, fresh or trained; one client per seed. The label counts are
told unless `--labels unknown`. In which order a client sees its examples is told only with `--orders told`, as other
toolkits are told it. The server has 1,000 digits of other people; with `--images smooth` the attack does not use them.

    python benchmarks/inversion.py --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.recover.gradient_inversion import GradientInversion
from fedleak.attacks.recover.labels import label_counts
from fedleak.core import FloatArray, IntArray, Params, Task, UserId, rng_for
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread
from fedleak.federation.federation import Client, initial, train
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.games.recover import ExampleQuestions
from fedleak.metrics.recovery import assigned
from fedleak.plan.plan import FederationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.population import Examples

SHAPE, CLASSES = (1, 28, 28), 10
LEARNED = 30  # rounds of 20 clients with 100 digits, of a trained model


@dataclass(frozen=True)
class Case:
    """How many examples a client has and how it trains; whether its labels may repeat and the model has learned."""

    size: int
    batch: int
    epochs: int = 1
    repeats: bool = False
    trained: bool = False


CASES = {
    "batch 1": Case(1, 1),
    "batch 8": Case(8, 8),
    "batch 8 as 4 steps of 2": Case(8, 2),
    "batch 4 for 2 epochs": Case(4, 4, epochs=2),
    "batch 8, labels repeat": Case(8, 8, repeats=True),
    "batch 8, trained model": Case(8, 8, trained=True),
    "100 examples in 5 steps": Case(100, 20, repeats=True),
}
MODEL = StridedCnn(channels=(8, 16, 32), strides=(2, 2, 1), activation="elu").build(
    Signature(Task.CLASSIFY, SHAPE, CLASSES)
)


@dataclass(frozen=True)
class Sent:
    """What one client sent, and what it trained on; `order` is (epochs, examples), places in the order of labels."""

    start: Params
    update: Params
    data: Examples
    order: IntArray
    plan: FederationPlan


def sent(case: Case, seed: int) -> Sent:
    """Train one client."""
    plan = FederationPlan(rounds=1, batch=case.batch, epochs=case.epochs, lr=0.02)
    [user, *_] = MnistClients(clients=2, examples=100, classes=CLASSES, rotated=0.0).load(seed).users
    chosen, labels = rng_for(seed, "inversion").permutation(len(user.examples)), np.asarray(user.examples.y)
    if not case.repeats:  # the first of each class
        chosen = chosen[np.sort(np.unique(labels[chosen], return_index=True)[1])]
    chosen = chosen[: case.size]
    data = user.examples.take(chosen[np.argsort(labels[chosen], kind="stable")])
    start = trained(seed) if case.trained else initial(MODEL, seed)
    with one_thread():
        rows = Embedded(MODEL, Task.CLASSIFY, plan, Pool.of([data], ["client"])).updates(
            start, [0], lambda *path: rng_for(seed, *path)
        )
    rng = rng_for(seed, "batches", 0)  # the order in which the engine shuffled
    order = np.stack([rng.permutation(case.size) for _ in range(case.epochs)])
    return Sent(start, {layer: values.numpy() for layer, values in rows.items()}, data, order, plan)


@cache
def trained(seed: int) -> Params:
    """A model that has learned digits from other clients."""
    users = MnistClients(clients=20, examples=100, classes=CLASSES, rotated=0.0).load(10_000 + seed).users
    clients = [Client(f"d-{i:06x}", UserId(str(i)), -1, user.examples) for i, user in enumerate(users)]
    plan = FederationPlan(rounds=LEARNED, fraction=1.0, batch=20, lr=0.05)
    *_, last = train(MODEL, clients, plan, (), None, seed)
    return last.weights


@cache
def public() -> Examples:
    """Digits of people who take no part."""
    users = MnistClients(clients=10, examples=100, classes=CLASSES, rotated=0.0).load(20_000).users
    return Examples.concat([user.examples for user in users])


def invert(one: Sent, attack: GradientInversion, seed: int, *, orders: bool, labels: bool) -> tuple[FloatArray, float]:
    """The images that the attack finds, and its processor seconds."""
    counts = np.bincount(np.asarray(one.data.y), minlength=CLASSES)[None]
    told = (tuple(counts[0].tolist()),) if labels else ()
    questions = ExampleQuestions(
        updates=np.zeros(0, dtype=np.int64),
        options=(),
        round=1,
        samples=len(one.data),
        shape=SHAPE,
        classes=CLASSES,
        public=public(),
        labels=told,
    )
    began = time.process_time()
    size = np.full(1, len(one.data))
    found = label_counts(MODEL, one.start, one.update, size, one.plan, questions)
    context, order = AttackContext(rng_for(seed, "attack")), one.order[None] if orders else None
    images = attack.search(MODEL, one.start, one.update, found, one.plan, questions, context, order)
    return images[0], time.process_time() - began


def measure(name: str, seeds: list[int], attack: GradientInversion, *, orders: bool, labels: bool) -> None:
    """Print the PSNR of one case: over all examples, and by whether a label repeats."""
    noise, alone, spent = [], [], 0.0
    for seed in seeds:
        one = sent(CASES[name], seed)
        images, seconds = invert(one, attack, seed, orders=orders, labels=labels)
        y = np.asarray(one.data.y)
        noise.append(assigned(images, one.data.x).psnr)
        alone.append(np.bincount(y, minlength=CLASSES)[y] == 1)
        spent += seconds
    every, once = np.concatenate(noise), np.concatenate(alone)
    parts = [f"{kind} {every[here].mean():.1f}" for kind, here in (("unique", once), ("repeated", ~once)) if here.any()]
    by_seed = ", ".join(f"{part.mean():.1f}" for part in noise)
    print(
        f"{name}: PSNR {every.mean():.1f} ({by_seed}); labels {', '.join(parts)}; "
        f"above 25 dB {(every > 25).mean():.2f}; {spent / len(seeds):.0f} CPU seconds a client",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=GradientInversion.iterations)
    parser.add_argument("--products", type=int, default=GradientInversion.products)
    parser.add_argument("--images", choices=["public", "smooth"], default="public")
    parser.add_argument("--distance", choices=["cosine", "euclidean"], default="euclidean")
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--orders", choices=["told", "searched"], default="searched")
    parser.add_argument("--labels", choices=["told", "unknown"], default="told")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:-1])
    given = parser.parse_args()
    how = GradientInversion(
        iterations=given.iterations,
        products=given.products,
        images=given.images,
        distance=given.distance,
        restarts=given.restarts,
    )
    for case in given.cases:
        measure(case, given.seeds, how, orders=given.orders == "told", labels=given.labels == "told")
