"""Local optimisers over many clients at once.

They act on the leading clients of each tensor only, because clients with less data finish earlier and must stay where
they are, momentum included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedleak.lazy import torch

__all__ = ["Sgd", "Adam", "clip", "clip_values"]


class Sgd:
    """Plain stochastic gradient descent."""

    def __init__(self, lr: float) -> None:
        self.lr = lr

    def step(self, weights: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        """Move the weights against the gradients."""
        torch._foreach_add_(list(weights), list(gradients), alpha=-self.lr)


class Adam:
    """Adam (Kingma and Ba, 2015) with the usual constants; its state lives for one round."""

    def __init__(self, lr: float, weights: Sequence[torch.Tensor]) -> None:
        self.lr = lr
        self.steps = 0  # the same for all clients at work: they started together
        self.mean = [torch.zeros_like(w) for w in weights]
        self.square = [torch.zeros_like(w) for w in weights]

    def step(self, weights: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        """Move the weights by the bias-corrected moments."""
        first, second, epsilon = 0.9, 0.999, 1e-8
        self.steps += 1
        gradients = list(gradients)
        active = len(gradients[0])
        mean = [m[:active] for m in self.mean]
        square = [s[:active] for s in self.square]
        torch._foreach_lerp_(mean, gradients, 1 - first)
        torch._foreach_mul_(square, second)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - second)
        scale = torch._foreach_sqrt(square)
        torch._foreach_div_(scale, math.sqrt(1 - second**self.steps))
        torch._foreach_add_(scale, epsilon)
        torch._foreach_addcdiv_(list(weights), mean, scale, -self.lr / (1 - first**self.steps))


def clip(gradients: Sequence[torch.Tensor], bound: float) -> list[torch.Tensor]:
    """Scale each client's gradient so that its norm over all tensors is at most the bound.

    Not in place: autograd may hand out one tensor as the gradient of two (an LSTM's biases), which would be scaled
    twice.
    """
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
    scale = (bound / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp_(max=1.0)
    return [g * scale.view(-1, *[1] * (g.dim() - 1)) for g in gradients]


def clip_values(gradients: Sequence[torch.Tensor], bound: float) -> list[torch.Tensor]:
    """Bound every entry of each client's gradient. Not in place, for the same reason."""
    return [g.clamp(-bound, bound) for g in gradients]
