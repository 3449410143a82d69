"""A model with BatchNorm, to see what its running statistics give away (batch_norm.toml).

fedleak audit batch_norm.toml    clients send them, as FedAvg on a state dict does

With buffers = "local" in [model] they stay on the clients; the rest of the run is the same, number by number.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from fedleak import Signature

__all__ = ["Net", "build"]


class Net(nn.Module):
    """A small classifier of images."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.fc, self.bn, self.out = nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Linear(16, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One score for each class."""
        scores: torch.Tensor = self.out(self.bn(self.fc(x.flatten(1))).relu())
        return scores


def build(signature: Signature) -> nn.Module:
    """The model for the data of the plan."""
    return Net(math.prod(signature.input_shape), signature.outputs)
