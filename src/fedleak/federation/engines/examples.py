"""Gradients of single examples, for defences that bound what each of them may do (Abadi et al., 2016).

Every model here carries its weights on a leading client axis and yields one gradient for each client. So an example is
made a client of its own, with a batch of one: its gradient then comes out of the same forward and backward pass that
trains whole groups, recurrent layers with their hand-written backward pass included. `torch.func` would need a batching
rule for each of these (nn.LSTM has none), and Opacus a module of its own for each layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from fedleak.federation.model import Tensors
from fedleak.lazy import torch

__all__ = ["weighted"]

_AT_ONCE = 4_000_000  # numbers in the gradients that are held together: what a processor's cache holds


class Losses(Protocol):
    """The sum of the mean losses of clients; `of` says whose generators each of them draws from."""

    def __call__(
        self, weights: Tensors, x: torch.Tensor, y: torch.Tensor | None, share: torch.Tensor, of: Sequence[int]
    ) -> torch.Tensor:
        """Compute it."""
        ...


class Weighs(Protocol):
    """Says how much each example counts, given the norm of its gradient."""

    def on_examples(self, norms: torch.Tensor) -> torch.Tensor:
        """A weight for each norm."""
        ...


def weighted(
    loss: Losses,
    weights: Tensors,
    x: torch.Tensor,
    y: torch.Tensor | None,
    real: torch.Tensor,
    defences: Sequence[Weighs],
    group: int,
) -> list[torch.Tensor]:
    """Each client's sum of its examples' gradients, each weighted by what the defences say.

    `real` says which places of the batches hold an example. The others are left out: they would cost as much.
    """
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
            for defence in defences:
                counts = counts * defence.on_examples(norms)
            for into, g in zip(found, gradients, strict=True):
                into[first : last + 1].view(len(counts), -1).addmm_(counts, g.flatten(1))
    return found
