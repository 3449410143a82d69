"""Which examples shared a mini-batch: a search over the orders in which a client may have seen them.

A client shuffles its examples before every pass. Which of them meet in a step changes the update a little: enough to be
told from it as soon as the images are roughly right. Two examples of different batches change places, the best such
change is kept, and so on.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fedleak.attacks.recover.imitation import Imitation
from fedleak.core import IntArray
from fedleak.lazy import torch

__all__ = ["reorder", "exchanges"]

_LEAST = 1e-6  # relative gain of a change that is worth making
_TOGETHER = 32  # orders that are tried side by side
_TRIED = 128  # changes that are tried before the best of them is made
_CHANGES = 24  # that are made at most


def exchanges(places: int, batch: int) -> IntArray:
    """Pairs of positions in different batches.

    >>> exchanges(3, 2).tolist()
    [[0, 2], [1, 2]]
    """
    pairs = [pair for pair in combinations(range(places), 2) if pair[0] // batch != pair[1] // batch]
    return np.asarray(pairs, dtype=np.int64).reshape(-1, 2)


def reorder(problem: Imitation, images: torch.Tensor, rng: np.random.Generator) -> bool:
    """Change the orders of a problem where that brings updates nearer; whether any was changed."""
    pairs = exchanges(images.shape[1], problem.plan.batch)
    changed = False
    for client in range(len(images) if len(pairs) else 0):
        order = problem.orders[client]
        lowest = float(problem.errors_of_orders(client, images, order[None])[0])
        for _ in range(_CHANGES):
            options = [(epoch, *pair) for epoch in range(len(order)) for pair in pairs.tolist()]
            chosen = rng.permutation(len(options))[:_TRIED] if len(options) > _TRIED else range(len(options))
            trials = order[None].repeat(len(chosen), 1, 1)
            for row, choice in enumerate(chosen):
                epoch, a, b = options[choice]
                trials[row, epoch, [a, b]] = order[epoch, [b, a]]
            values = torch.cat(
                [problem.errors_of_orders(client, images, part) for part in torch.split(trials, _TOGETHER)]
            )
            best = int(values.argmin())
            if not float(values[best]) < lowest * (1 - _LEAST):
                break
            order, lowest, changed = trials[best], float(values[best]), True
        problem.orders[client] = order
    return changed
