"""The small network that the papers' attacks train on updates, with one answer or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
import torch
from msgspec import Meta
from torch.nn import functional

from fedleak.core import FloatArray, IntArray

__all__ = ["Network", "Predict", "fit"]

Predict: TypeAlias = Callable[[FloatArray], list[FloatArray]]
"""Rows -> for every head the logarithms of its classes' probabilities."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """How the network is made and trained (Orekondy et al., 2020, section 4.3)."""

    hidden: Annotated[int, Meta(ge=1, description="units of the hidden layer")] = 128
    dropout: Annotated[float, Meta(ge=0, lt=1, description="share of hidden units dropped while training")] = 0.2
    lr: Annotated[float, Meta(gt=0, description="learning rate of SGD with momentum 0.9")] = 0.01
    decay: Annotated[float, Meta(ge=0, description="decay of the learning rate with every step")] = 1e-6
    batch: Annotated[int, Meta(ge=1, description="updates in a step")] = 32
    epochs: Annotated[int, Meta(ge=1, description="passes over the labelled updates; the paper does not say")] = 100


def fit(known: FloatArray, targets: Sequence[IntArray], settings: Network, rng: np.random.Generator) -> Predict:
    """Train one hidden layer with a head for each column of targets, on the sum of the heads' losses.

    Classes count from 0, and every row has one in the first column. In the others -1 says that a row's class is not
    known; that head then learns nothing from it.
    """
    rows, labels = torch.from_numpy(known), [torch.from_numpy(target) for target in targets]
    sizes = [int(target.max()) + 1 for target in targets]
    weights = [*dense(known.shape[1], settings.hidden, rng)]
    for size in sizes:
        weights += dense(settings.hidden, size, rng)
    velocity = [torch.zeros_like(w) for w in weights]
    noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
    step = 0
    for _ in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(len(rows)))
        for batch in torch.split(order, settings.batch):
            hidden = torch.relu(functional.linear(rows[batch], weights[0], weights[1]))
            kept = torch.rand(hidden.shape, generator=noise) >= settings.dropout
            losses = [
                functional.cross_entropy(logits, label[batch], ignore_index=-1)
                for logits, label in zip(_heads(hidden * kept / (1 - settings.dropout), weights), labels, strict=True)
                if (label[batch] >= 0).any()  # the mean over nothing is not a number
            ]
            # A head without a loss in this batch has no gradient, and stays where its momentum carries it.
            gradients = torch.autograd.grad(torch.stack(losses).sum(), weights, materialize_grads=True)
            lr = settings.lr / (1 + settings.decay * step)
            with torch.no_grad():
                torch._foreach_mul_(velocity, 0.9)
                torch._foreach_add_(velocity, gradients, alpha=-lr)
                torch._foreach_add_(weights, velocity)
            step += 1

    def predict(asked: FloatArray) -> list[FloatArray]:
        with torch.no_grad():
            hidden = torch.relu(functional.linear(torch.from_numpy(asked), weights[0], weights[1]))
            return [logits.log_softmax(1).numpy() for logits in _heads(hidden, weights)]

    return predict


def dense(inputs: int, outputs: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of a fully connected layer after Glorot and Bengio (2010), the default of the paper's library."""
    bound = np.sqrt(6 / (inputs + outputs))
    weight = torch.from_numpy(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
    return weight.requires_grad_(), torch.zeros(outputs, requires_grad=True)


def _heads(hidden: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [functional.linear(hidden, *weights[i : i + 2]) for i in range(2, len(weights), 2)]
