"""What a server does that watches a validation loss: lower the learning rate on a plateau, and stop early.

Yuan et al. (2021, section V-A) divide the learning rate by ten if the loss has not decreased in the last five rounds,
and stop if it has not for several. Everything follows from the models of the rounds so far, so a resumed run shows them
to a new monitor and goes on as before.
"""

from __future__ import annotations

import math

from fedleak.core import Params
from fedleak.errors import DataError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.loss import inputs, task_of, total
from fedleak.federation.model import Model
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["Monitor", "validation_loss", "halved"]

_AT_ONCE = 256  # examples: bounds the memory of an evaluation
_LOWERED = 0.1  # what is left of the learning rate after a plateau


class Monitor:
    """The validation loss of the shared model, round by round, and what follows from it."""

    def __init__(self, model: Model, validation: Examples, settings: FederationPlan) -> None:
        self.model, self.validation, self.settings = model, validation, settings
        self.rate = 1.0  # what the learning rate is multiplied by
        self.best, self.waited, self.plateau = math.inf, 0, 0  # rounds since the loss, or the rate, last decreased

    @property
    def stopped(self) -> bool:
        """Whether the loss has not decreased for as many rounds as the server waits."""
        return self.settings.patience is not None and self.waited >= self.settings.patience

    def see(self, weights: Params) -> None:
        """Look at the model that a round left, or at the initial one."""
        loss = validation_loss(self.model, weights, self.validation)
        if loss < self.best:
            self.best, self.waited, self.plateau = loss, 0, 0
            return
        self.waited, self.plateau = self.waited + 1, self.plateau + 1
        if self.settings.plateau is not None and self.plateau >= self.settings.plateau:
            self.rate, self.plateau = self.rate * _LOWERED, 0


def validation_loss(model: Model, weights: Params, examples: Examples) -> float:
    """The loss that clients minimise, on these examples."""
    task, values, pool = task_of(examples), tensors(model, weights), Pool.of([examples], ["validation"])
    losses, counts = 0.0, 0
    with one_thread(), torch.no_grad():
        for start in range(0, len(examples), _AT_ONCE):
            x = pool.x[start : start + _AT_ONCE].unsqueeze(0)
            y = None if pool.y is None else pool.y[start : start + _AT_ONCE]
            share = torch.full(x.shape[:2], 1 / x.shape[1])
            losses += x.shape[1] * float(total(task, model.forward(values, inputs(task, x)), x, y, share))
            counts += x.shape[1]
    return losses / counts


def halved(test: Examples) -> tuple[Examples, Examples]:
    """Every other held-out example for the server to watch, the rest to test the model on."""
    if len(test) < 2:
        raise DataError("one held-out example cannot be divided into validation and test; hold out more")
    every = range(len(test))
    return test.take(list(every[::2])), test.take(list(every[1::2]))
