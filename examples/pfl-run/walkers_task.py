"""The task of the example: a small network, and made-up steps of people who each walk in their own way."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

FEATURES, CLASSES = 10, 3
USERS = tuple(f"user-{number:02d}" for number in range(12))


class Net(nn.Module):
    """Two layers; pfl asks a model for its loss and its metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, 16)
        self.fc2 = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes."""
        logits: Tensor = self.fc2(torch.relu(self.fc1(x)))
        return logits

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        """Cross-entropy of a batch."""
        return nn.functional.cross_entropy(self(x), y.reshape(-1).long())

    def metrics(self, x: Tensor, y: Tensor, eval: bool = True) -> dict[str, Any]:
        """The loss of a user."""
        from pfl.metrics import Weighted

        with torch.no_grad():
            total = nn.functional.cross_entropy(self(x), y.reshape(-1).long(), reduction="sum").item()
        return {"loss": Weighted(total, len(y))}


def steps(user: str, part: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Measurements of a user's steps and what they were doing; another `part` is of other days."""
    place = USERS.index(user)
    own = np.random.default_rng(place)
    gait = own.normal(0, 1, FEATURES)
    count = int(own.integers(20, 40))
    rng = np.random.default_rng((place, part))
    y = rng.integers(0, CLASSES, count)
    centres = np.random.default_rng(99).normal(0, 1, (CLASSES, FEATURES))
    x = centres[y] + gait + rng.normal(0, 0.5, (count, FEATURES))
    return x.astype(np.float32), y.astype(np.int64)
