"""The model, its training, and the made-up data: ten signs of 8 x 8 pixels in the handwriting of twenty users."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

USERS = [f"user-{number:02}" for number in range(20)]
SIGNS, SIDE = 10, 8
EXAMPLES = 40  # of each user, for training


class Net(nn.Module):
    """A small multilayer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(SIDE * SIDE, 32)
        self.fc2 = nn.Linear(32, SIGNS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the ten signs."""
        hidden: torch.Tensor = self.fc2(torch.relu(self.fc1(x.flatten(1))))
        return hidden


def draw(user: int, count: int, part: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Signs that a user wrote; `part` names which: what they train on, test with, or wrote long ago."""
    signs = np.random.default_rng([7]).normal(size=(SIGNS, 1, SIDE, SIDE))  # the same for everyone
    handwriting = np.random.default_rng([7, user]).normal(size=(SIGNS, 1, SIDE, SIDE))  # how this user writes them
    rng = np.random.default_rng([7, user, *part.encode()])
    y = np.arange(count) % SIGNS
    x = signs[y] + 0.6 * handwriting[y] + 0.8 * rng.normal(size=(count, 1, SIDE, SIDE))
    return x.astype(np.float32), y.astype(np.int64)


def load_data(partition_id: int, part: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The data of one client: partition 3 belongs to user-03."""
    x, y = draw(partition_id, EXAMPLES, part)
    return torch.from_numpy(x), torch.from_numpy(y)


def train(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> float:
    """Train on the data of one client with plain SGD; returns the loss of the last batch."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    order = torch.Generator().manual_seed(seed)
    loss = torch.zeros(())
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x), generator=order), batch_size):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def test(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy."""
    scores = net(x)
    return float(functional.cross_entropy(scores, y)), float((scores.argmax(1) == y).float().mean())
