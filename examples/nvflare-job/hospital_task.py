"""The task of the example: a small network, and made-up measurements of the patients of each hospital."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

FEATURES, CLASSES = 12, 4
HOSPITALS = tuple(f"hospital-{number}" for number in range(1, 5))


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, 16)
        self.fc2 = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes."""
        logits: Tensor = self.fc2(torch.relu(self.fc1(x)))
        return logits


def patients(hospital: str, count: int = 60, part: int = 0) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Measurements and diagnoses; each hospital has instruments and a mix of diagnoses of its own.

    Another `part` is of other patients of the same hospital.
    """
    place = HOSPITALS.index(hospital)
    own = np.random.default_rng(place)
    shift = own.normal(0, 1, FEATURES)
    mix = own.dirichlet(np.ones(CLASSES))
    rng = np.random.default_rng((place, part))
    y = rng.choice(CLASSES, size=count, p=mix)
    centres = np.random.default_rng(99).normal(0, 2, (CLASSES, FEATURES))
    x = centres[y] + shift + rng.normal(0, 1, (count, FEATURES))
    return x.astype(np.float32), y.astype(np.int64)


def train(model: nn.Module, x: npt.NDArray[np.float32], y: npt.NDArray[np.int64], lr: float = 0.1) -> int:
    """One epoch in batches of 20, in the order of the data; returns the number of examples."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for start in range(0, len(x), 20):
        optimiser.zero_grad()
        batch = slice(start, start + 20)
        loss = nn.functional.cross_entropy(model(torch.from_numpy(x[batch])), torch.from_numpy(y[batch]))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return len(x)
