"""One local step of clients that are computed together: their gradients, of a batch or of each example.

Gradients of single examples are for defences that bound what each of them may do (Abadi et al., 2016). Every model here
carries its weights on a leading client axis and yields one gradient for each client. So an example is made a client of
its own, with a batch of one: its gradient then comes out of the same forward and backward pass that trains whole
groups, recurrent layers with their hand-written backward pass included. `torch.func` would need a batching rule for
each of these (nn.LSTM has none), and Opacus a module of its own for each layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedleak.errors import TrainingError
from fedleak.federation.model import Tensors
from fedleak.lazy import torch

__all__ = ["Batch", "LocalStep", "Losses", "gradients_of"]

_AT_ONCE = 4_000_000  # numbers in the gradients that are held together: what a processor's cache holds


class Losses(Protocol):
    """The sum of the mean losses of clients; `of` says whose generators each of them draws from."""

    def __call__(
        self, weights: Tensors, x: torch.Tensor, y: torch.Tensor | None, share: torch.Tensor, of: Sequence[int]
    ) -> torch.Tensor:
        """Compute it."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """What the clients of a group see in one step."""

    x: torch.Tensor  # (clients, width, ...)
    y: torch.Tensor | None  # (clients * width, ...)
    share: torch.Tensor  # (clients, width): what each example counts in its client's mean; 0 where a place is empty
    planned: torch.Tensor  # (clients,): the size of a batch as planned, whatever was drawn


def gradients_of(loss: Losses, weights: Tensors, batch: Batch) -> Sequence[torch.Tensor]:
    """The gradient of each client's mean loss, tensor by tensor."""
    total = loss(weights, batch.x, batch.y, batch.share, range(len(batch.x)))
    return torch.autograd.grad(total, list(weights.values()), allow_unused=True, materialize_grads=True)


class LocalStep:
    """A local step as `Defence.on_step` gets it; nothing is computed before it is asked for."""

    def __init__(
        self, loss: Losses, weights: Tensors, batch: Batch, group: int, gradients: Tensors | None = None
    ) -> None:
        self.weights = weights  # before the step; the leading axis runs over the clients
        self._loss, self._batch, self._group, self._gradients = loss, batch, group, gradients

    @property
    def gradients(self) -> Tensors:
        """Of each client's mean loss over its batch, or what the defence before this one made of them."""
        if self._gradients is None:
            with torch.enable_grad():
                found = gradients_of(self._loss, self.weights, self._batch)
            # Copies, because a defence may work in place and autograd may give two weights one gradient.
            self._gradients = {key: g.clone() for key, g in zip(self.weights, found, strict=True)}
        return self._gradients

    def sum_examples(self, weigh: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
        """Each client's sum of its examples' gradients; `weigh` gets their norms and says how much each counts."""
        if self._gradients is not None:
            raise TrainingError(
                "a defence asks for the gradients of single examples after another one has changed the step; write "
                "the one that weighs examples (dp-sgd) first in the plan"
            )
        batch = self._batch
        sums = _weighted(self._loss, self.weights, batch.x, batch.y, batch.share > 0, weigh, self._group)
        return dict(zip(self.weights, sums, strict=True))

    def mean(self, sums: Tensors) -> Tensors:
        """Divide sums over examples by the size of a batch as planned: the size drawn depends on who is in the data."""
        return {key: s / self._batch.planned.view(-1, *[1] * (s.dim() - 1)) for key, s in sums.items()}

    def changed(self, gradients: Tensors) -> LocalStep:
        """The same step, with these gradients."""
        return LocalStep(self._loss, self.weights, self._batch, self._group, gradients)


def _weighted(
    loss: Losses,
    weights: Tensors,
    x: torch.Tensor,
    y: torch.Tensor | None,
    real: torch.Tensor,
    weigh: Callable[[torch.Tensor], torch.Tensor],
    group: int,
) -> list[torch.Tensor]:
    """`real` says which places of the batches hold an example. The others are left out: they would cost as much."""
    clients, width = real.shape
    found = [torch.zeros(w.shape) for w in weights.values()]
    every = torch.nonzero(real.reshape(-1)).squeeze(1)
    size = sum(math.prod(w.shape[1:]) for w in weights.values())
    # A model that is computed client by client is computed example by example.
    count = 1 if group == 1 else max(1, _AT_ONCE // size)
    flat = x.reshape(clients * width, 1, *x.shape[2:])
    for start in range(0, len(every), count):
        places = every[start : start + count]
        owner = places // width
        first, last = int(owner[0]), int(owner[-1])
        if first == last:  # the same weights for all: repeated without a copy
            own = {
                key: w[first].detach().expand(len(places), *w.shape[1:]).requires_grad_() for key, w in weights.items()
            }
        else:
            own = {key: w.detach().index_select(0, owner).requires_grad_() for key, w in weights.items()}
        with torch.enable_grad():
            total = loss(
                own,
                flat.index_select(0, places),
                None if y is None else y.index_select(0, places),
                torch.ones(len(places), 1),
                owner.tolist(),
            )
        gradients = torch.autograd.grad(total, list(own.values()), allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            norms = torch.linalg.vector_norm(
                torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]), dim=0
            )
            # A row for each client: what its examples count, and 0 for those of others.
            counts = torch.zeros(last - first + 1, len(places))
            counts[owner - first, torch.arange(len(places))] = 1.0
            counts = counts * weigh(norms)
            for into, g in zip(found, gradients, strict=True):
                into[first : last + 1].view(len(counts), -1).addmm_(counts, g.flatten(1))
    return found
