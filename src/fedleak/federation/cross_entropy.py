"""The loss of a language model with its backward pass written out, for `loss.py`."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["CrossEntropy"]


class CrossEntropy(torch.autograd.Function):
    """The weighted sum of cross-entropies; its gradient, weight * (softmax - one-hot), replaces what was saved.

    Torch's own fills one array with zeros and another with the gradient; with a vocabulary of outputs for each word
    that took a quarter of a language model's round.
    """

    @staticmethod
    def forward(ctx: Any, outputs: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The loss."""
        logs = torch.log_softmax(outputs, 1)
        targets = targets.unsqueeze(1)
        ctx.save_for_backward(logs, targets, weight)
        return -torch.dot(logs.gather(1, targets).view(-1), weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient of the outputs."""
        logs, targets, weight = ctx.saved_tensors
        weight = (weight * grad).unsqueeze(1)
        return logs.exp_().mul_(weight).scatter_add_(1, targets, -weight), None, None
