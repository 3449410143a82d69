"""The shared model with more outputs: the discriminator of mGAN-AI (Song et al., 2020, eq. 3)."""

from __future__ import annotations

import numpy as np

from fedleak.core import Params
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Architecture, Model, Signature
from fedleak.lazy import torch

__all__ = ["HeadedModel"]


class HeadedModel:
    """Every layer of a classifier but the last is shared by several tasks; the last one has `more` outputs besides.

    Only what the classifier has is exchanged with a federation. The other heads stay where they are.
    """

    def __init__(self, architecture: Architecture, signature: Signature, more: int, rng: np.random.Generator) -> None:
        self.outputs = signature.outputs
        headed = Signature(signature.task, signature.input_shape, self.outputs + more)
        self.model: Model = architecture.build(headed)
        self.last = self.model.layout[-1].name
        self.weights = {
            key: values.clone().requires_grad_() for key, values in tensors(self.model, self.model.init(rng)).items()
        }

    def begin(self, weights: Params) -> None:
        """Take over a classifier."""
        with torch.no_grad():
            for layer in self.model.layout:
                start = 0
                for tensor, _ in layer.tensors:
                    rows = self._classifier(layer.name, tensor)
                    rows.copy_(torch.from_numpy(weights[layer.name][start : start + rows.numel()]).view(rows.shape))
                    start += rows.numel()

    def classifier(self) -> Params:
        """What a federation knows of it: all but the other heads."""
        return {
            layer.name: np.concatenate(
                [self._classifier(layer.name, tensor).detach().numpy().ravel() for tensor, _ in layer.tensors]
            )
            for layer in self.model.layout
        }

    def _classifier(self, layer: str, tensor: str) -> torch.Tensor:
        mine = self.weights[f"{layer}.{tensor}"][0]
        return mine[: self.outputs] if layer == self.last else mine

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """All outputs for (n, channels, height, width): first the classifier's, then those of the other heads."""
        return self.model.forward(self.weights, images[None])[0]
