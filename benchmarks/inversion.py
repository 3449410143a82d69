"""How well gradient inversion recovers MNIST digits, on the cases that other toolkits were measured on.

A fresh strided-cnn [8, 16, 32] with ELU, learning rate 0.02; one client per seed, searched for together. The labels are
told, as the other toolkits are told them; the order in which a client sees its examples is not.

    python benchmarks/inversion.py --seeds 0 1 2 --iterations 1000
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.recover.gradient_inversion import GradientInversion
from fedleak.core import Task, rng_for
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread
from fedleak.federation.federation import initial
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.games.recover import ExampleQuestions
from fedleak.metrics.recovery import assigned
from fedleak.plan.plan import FederationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.population import Examples

SHAPE, CLASSES = (1, 28, 28), 10
# Examples, batch, epochs.
CASES = {
    "batch 1": (1, 1, 1),
    "batch 8": (8, 8, 1),
    "batch 8 as 4 steps of 2": (8, 2, 1),
    "batch 4 for 2 epochs": (4, 4, 2),
    "100 examples in 5 steps": (100, 20, 1),
}


def measure(name: str, seeds: list[int], iterations: int) -> None:
    """Print the PSNR of one case: over all examples, and by whether a label repeats."""
    size, batch, epochs = CASES[name]
    plan = FederationPlan(rounds=1, batch=batch, epochs=epochs, lr=0.02)
    model = StridedCnn(channels=(8, 16, 32), strides=(2, 2, 1), activation="elu").build(
        Signature(Task.CLASSIFY, SHAPE, CLASSES)
    )
    data: list[Examples] = []
    for seed in seeds:
        [user, *_] = MnistClients(clients=2, examples=max(size, 8), classes=CLASSES, rotated=0.0).load(seed).users
        chosen = rng_for(seed, "inversion").choice(len(user.examples), size, replace=False)
        data.append(user.examples.take(chosen))
    start = initial(model, seeds[0])
    began = time.process_time()
    with one_thread():
        rows = Embedded(model, Task.CLASSIFY, plan, Pool.of(data, [str(seed) for seed in seeds])).updates(
            start, range(len(seeds)), lambda *path: rng_for(0, *path)
        )
    counts = np.stack([np.bincount(np.asarray(one.y), minlength=CLASSES) for one in data])
    questions = ExampleQuestions(
        updates=np.zeros(0, dtype=np.int64),
        options=(),
        round=1,
        samples=size,
        shape=SHAPE,
        classes=CLASSES,
        public=data[0],
    )
    updates = {layer: values.numpy() for layer, values in rows.items()}
    context = AttackContext(rng_for(seeds[0], "attack"))
    found = GradientInversion(iterations=iterations)._search(model, start, updates, counts, plan, questions, context)
    seconds = (time.process_time() - began) / len(seeds)
    noise = [assigned(images, one.x).psnr for images, one in zip(found, data, strict=True)]
    alone = np.concatenate([count[np.asarray(one.y)] == 1 for count, one in zip(counts, data, strict=True)])
    every = np.concatenate(noise)
    parts = [
        f"{kind} {every[here].mean():.1f}" for kind, here in (("unique", alone), ("repeated", ~alone)) if here.any()
    ]
    by_seed = ", ".join(f"{one.mean():.1f}" for one in noise)
    print(
        f"{name}: PSNR {every.mean():.1f} ({by_seed}); labels {', '.join(parts)}; "
        f"above 25 dB {(every > 25).mean():.2f}; {seconds:.0f} CPU seconds a client",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:-1])
    given = parser.parse_args()
    for case in given.cases:
        measure(case, given.seeds, given.iterations)
