"""The multilayer perceptron that the papers' attacks train on updates, with one head or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, IntArray
from fedleak.lazy import functional, torch

__all__ = ["Network", "Predict", "fit"]

Predict: TypeAlias = Callable[[FloatArray], list[FloatArray]]
"""Rows -> for every head the logarithms of its classes' probabilities."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """How the network is made and trained (Orekondy et al., 2020, section 4.3)."""

    hidden: Annotated[int, Meta(ge=1, description="units of the hidden layer")] = 128
    dropout: Annotated[float, Meta(ge=0, lt=1, description="dropout rate of the hidden layer")] = 0.2
    lr: Annotated[float, Meta(gt=0, description="learning rate of SGD with momentum 0.9")] = 0.01
    decay: Annotated[float, Meta(ge=0, description="decay of the learning rate with every step")] = 1e-6
    batch: Annotated[int, Meta(ge=1, description="updates in a step")] = 32
    epochs: Annotated[int, Meta(ge=1, description="epochs over the labelled updates; the paper gives none")] = 100


def fit(known: FloatArray, targets: Sequence[IntArray], settings: Network, rng: np.random.Generator) -> Predict:
    """Train one hidden layer with a head for each column of targets, on the sum of the heads' losses.

    Classes count from 0, and every row has one in the first column. In the others -1 says that a row's class is not
    known; that head then learns nothing from it.
    """
    labels = [torch.from_numpy(target) for target in targets]
    first = (_ByRow if len(known) < known.shape[1] else _ByColumn)(torch.from_numpy(known), settings.hidden, rng)
    weights: list[torch.Tensor] = []
    for target in targets:
        weights += dense(settings.hidden, int(target.max()) + 1, rng)
    velocity = [torch.zeros_like(w) for w in weights]
    noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
    step = 0
    for _ in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(len(known)))
        for batch in torch.split(order, settings.batch):
            before = first.outputs(batch).requires_grad_()
            hidden = torch.relu(before)
            kept = torch.rand(hidden.shape, generator=noise) >= settings.dropout
            losses = [
                functional.cross_entropy(logits, label[batch], ignore_index=-1)
                for logits, label in zip(_heads(hidden * kept / (1 - settings.dropout), weights), labels, strict=True)
                if (label[batch] >= 0).any()  # the mean over nothing is not a number
            ]
            # A head without a loss in this batch has no gradient, and stays where its momentum carries it.
            change, *gradients = torch.autograd.grad(
                torch.stack(losses).sum(), [before, *weights], materialize_grads=True
            )
            lr = settings.lr / (1 + settings.decay * step)
            with torch.no_grad():
                first.step(batch, change, lr)
                torch._foreach_mul_(velocity, 0.9)
                torch._foreach_add_(velocity, gradients, alpha=-lr)
                torch._foreach_add_(weights, velocity)
            step += 1

    def predict(asked: FloatArray) -> list[FloatArray]:
        with torch.no_grad():
            hidden = torch.relu(first.answer(torch.from_numpy(asked)))
            return [logits.log_softmax(1).numpy() for logits in _heads(hidden, weights)]

    return predict


def dense(inputs: int, outputs: int, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of a fully connected layer after Glorot and Bengio (2010), the default of the paper's library."""
    bound = np.sqrt(6 / (inputs + outputs))
    weight = torch.from_numpy(rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32))
    return weight.requires_grad_(), torch.zeros(outputs, requires_grad=True)


def _heads(hidden: torch.Tensor, weights: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [functional.linear(hidden, *weights[i : i + 2]) for i in range(0, len(weights), 2)]


class _ByColumn:
    """The first layer with a weight for every column of the rows, trained by SGD with momentum."""

    def __init__(self, rows: torch.Tensor, hidden: int, rng: np.random.Generator) -> None:
        self.rows = rows
        self.weights = [part.detach() for part in dense(rows.shape[1], hidden, rng)]
        self.velocity = [torch.zeros_like(part) for part in self.weights]

    def outputs(self, batch: torch.Tensor) -> torch.Tensor:
        """What the layer makes of some of the rows."""
        return functional.linear(self.rows[batch], *self.weights)

    def step(self, batch: torch.Tensor, change: torch.Tensor, lr: float) -> None:
        """Follow the loss's gradient with respect to these outputs."""
        torch._foreach_mul_(self.velocity, 0.9)
        torch._foreach_add_(self.velocity, [change.T @ self.rows[batch], change.sum(0)], alpha=-lr)
        torch._foreach_add_(self.weights, self.velocity)

    def answer(self, asked: torch.Tensor) -> torch.Tensor:
        """What the layer makes of other rows."""
        return functional.linear(asked, *self.weights)


class _ByRow:
    """The same layer where there are fewer rows than columns: the same steps, written as amounts of each row.

    A gradient of the weights is a sum of rows, so is whatever momentum makes of several, and the layer needs only the
    products of rows with each other. A layer of an update has tens of thousands of columns, and a thousand updates of
    it are many: this is then as many times cheaper as there are columns to a row.
    """

    def __init__(self, rows: torch.Tensor, hidden: int, rng: np.random.Generator) -> None:
        self.rows = rows
        self.weight, self.bias = (part.detach() for part in dense(rows.shape[1], hidden, rng))
        self.products, self.at_first = rows @ rows.T, rows @ self.weight.T
        self.amounts = torch.zeros(len(rows), hidden)
        self.velocity = [torch.zeros_like(self.amounts), torch.zeros(hidden)]

    def outputs(self, batch: torch.Tensor) -> torch.Tensor:
        """What the layer makes of some of the rows."""
        return self.at_first[batch] + self.products[batch] @ self.amounts + self.bias

    def step(self, batch: torch.Tensor, change: torch.Tensor, lr: float) -> None:
        """Follow the loss's gradient with respect to these outputs."""
        torch._foreach_mul_(self.velocity, 0.9)
        self.velocity[0][batch] -= lr * change
        self.velocity[1] -= lr * change.sum(0)
        torch._foreach_add_([self.amounts, self.bias], self.velocity)

    def answer(self, asked: torch.Tensor) -> torch.Tensor:
        """What the layer makes of other rows."""
        return asked @ self.weight.T + (asked @ self.rows.T) @ self.amounts + self.bias
