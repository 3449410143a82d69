"""What a federation minimises: one masked loss per task, for many clients at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.population.population import Examples

__all__ = ["task_of", "inputs", "total"]


def task_of(examples: Examples) -> Task:
    """Tell the task from the labels: classes, rows of classes, numbers, or none where the text itself is predicted."""
    if examples.y is None:
        if not np.issubdtype(examples.x.dtype, np.integer):
            raise DataError("the examples have no labels, and only text can be learnt without; give each one a label")
        return Task.NEXT_TOKEN
    if examples.y.ndim == 2:
        return Task.MULTI_LABEL
    return Task.CLASSIFY if np.issubdtype(examples.y.dtype, np.integer) else Task.REGRESS


def inputs(task: Task, x: torch.Tensor) -> torch.Tensor:
    """What the model is shown: for the next-token task all tokens but the last."""
    return x[..., :-1] if task is Task.NEXT_TOKEN else x


def total(
    task: Task, outputs: torch.Tensor, x: torch.Tensor, y: torch.Tensor | None, share: torch.Tensor
) -> torch.Tensor:
    """The sum over clients of their mean losses: each client's gradient is then that of its own mean.

    `share` (clients, batch) is what an example counts in its client's mean: 1/n, or 0 where it only fills the batch.
    """
    if task is Task.NEXT_TOKEN:
        targets = x[..., 1:]
        counted = (targets != 0) & (share != 0).unsqueeze(2)
        # The mean is over words, not sentences; a batch without a word to predict has no gradient.
        weight = counted / counted.sum((1, 2), keepdim=True).clamp_(min=1)
        from fedleak.federation.cross_entropy import CrossEntropy

        apply: Callable[..., torch.Tensor] = CrossEntropy.apply  # torch leaves it untyped
        return apply(outputs.reshape(-1, outputs.shape[-1]), targets.reshape(-1), weight.view(-1))
    if y is None:
        raise DataError(f"the task '{task.value}' needs a label for each example")
    if task is Task.CLASSIFY:
        losses = F.cross_entropy(outputs.flatten(0, 1), y.view(-1), reduction="none")
    elif task is Task.MULTI_LABEL:
        # The mean over classes, not the sum: the step then does not grow with the number of classes.
        losses = F.binary_cross_entropy_with_logits(outputs.flatten(0, 1), y.float(), reduction="none").mean(1)
    else:
        losses = (outputs.flatten() - y.view(-1)).square()
    return torch.dot(losses, share.reshape(-1))
