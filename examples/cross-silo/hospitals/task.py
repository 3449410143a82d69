"""The model, its training, and the made-up data: visits of the patients of four hospitals."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HOSPITALS, PATIENTS, VISITS = 4, 50, 8
MEASUREMENTS, DIAGNOSES = 24, 3


class Net(nn.Module):
    """A small multilayer perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(MEASUREMENTS, 32)
        self.fc2 = nn.Linear(32, DIAGNOSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the diagnoses."""
        scores: torch.Tensor = self.fc2(torch.relu(self.fc1(x)))
        return scores


def patient(hospital: int, number: int) -> str:
    """The name of a patient; it does not say at which hospital."""
    return f"patient-{np.random.default_rng(5).permutation(HOSPITALS * PATIENTS)[hospital * PATIENTS + number]:03}"


def draw(hospital: int, number: int, part: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Visits of one patient; `part` names which: those that the hospital trains on, or older ones."""
    illnesses = np.random.default_rng([5]).normal(size=(DIAGNOSES, MEASUREMENTS))  # the same everywhere
    devices = np.random.default_rng([5, hospital]).normal(size=MEASUREMENTS)  # how this hospital measures
    body = np.random.default_rng([5, hospital, number]).normal(size=MEASUREMENTS)  # what is normal for this patient
    rng = np.random.default_rng([5, hospital, number, *part.encode()])
    y = rng.integers(DIAGNOSES, size=VISITS)
    x = illnesses[y] + 0.5 * devices + 0.7 * body + 0.7 * rng.normal(size=(VISITS, MEASUREMENTS))
    return x.astype(np.float32), y.astype(np.int64)


def load_data(hospital: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All visits that a hospital trains on."""
    visits = [draw(hospital, number, "train") for number in range(PATIENTS)]
    return tuple(torch.from_numpy(np.concatenate(column)) for column in zip(*visits, strict=True))  # type: ignore[return-value]


def train(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, *, epochs: int, batch_size: int, lr: float, seed: int
) -> float:
    """Train on the data of one hospital with plain SGD; returns the loss of the last batch."""
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
