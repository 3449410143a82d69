"""Model and local training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Net(nn.Module):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.out = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(nn.functional.elu(self.first(x)).flatten(1))
        return found


def train(net: nn.Module, x: Any, y: Any) -> None:
    """One epoch of gradient descent."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for rows in torch.randperm(len(x)).split(8):  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
