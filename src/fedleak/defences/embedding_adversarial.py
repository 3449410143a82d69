"""Training on embeddings that are pushed the wrong way as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.activation_hooks import touched
from fedleak.federation.hooks import Defence, Loss
from fedleak.federation.model import ActivationHooks
from fedleak.lazy import torch

__all__ = ["EmbeddingAdversarial"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingAdversarial(Defence):
    """Train on the embedding's outputs and on perturbed ones together (Yuan et al., 2021, VI-A, Table IX).

    The perturbation of an example has a fixed length and the direction in which its loss grows fastest (eq. 13, after
    Miyato et al., 2017, where the gradient is that of the likelihood, hence the sign there).
    """

    name: ClassVar[str] = "embedding-adversarial"
    summary: ClassVar[str] = "Trains also on adversarially perturbed embeddings (adversarial training)."
    places: ClassVar[tuple[str, ...]] = ("embedding",)
    no_epsilon: ClassVar[str] = "it adds no noise; the client trains on its records unmodified, and once more perturbed"

    epsilon: Annotated[
        float, Meta(gt=0, description="length of the perturbation of an example; the paper tries 1, 0.1 and 0.01")
    ] = 0.1

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """The mean of both losses, so that a step is no longer than without."""

        def both(touches: ActivationHooks) -> torch.Tensor:
            passed: list[torch.Tensor] = []

            def watch(values: torch.Tensor) -> torch.Tensor:
                passed.append(values)
                return values

            # A pass of its own: the gradient of the loss is made in place of what was saved for it, so it is made once.
            (direction,) = torch.autograd.grad(touched(loss, "embedding", watch)(touches), passed)
            norms = torch.linalg.vector_norm(direction.flatten(2), dim=2).clamp_(min=1e-12)
            push = direction * (self.epsilon / norms)[:, :, None, None]
            pushed = touched(loss, "embedding", lambda values: values + push)
            return (loss(touches) + pushed(touches)) / 2

        return both
