"""Model and local training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LR, EPOCHS, BATCH = 0.1, 2, 8


class Net(nn.Module):
    """A small network."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(10, hidden)
        self.out = nn.Linear(hidden, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(torch.relu(self.hidden(x)))
        return found


class Wide(Net):
    """A network that does not fit."""

    def __init__(self) -> None:
        super().__init__(hidden=20)


class Output:
    """What transformers call a model's output."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


class Noisy(nn.Module):
    """A network with everything that a run of Fedleak's own may not have: dropout, running statistics, frozen parts."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(10, 12)
        self.base.weight.requires_grad_(False)
        self.base.bias.requires_grad_(False)
        self.norm = nn.BatchNorm1d(12)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(12, 4)

    def forward(self, x: torch.Tensor) -> Output:
        return Output(self.classifier(self.dropout(torch.relu(self.norm(self.base(x))))))


def logits(found: Any) -> torch.Tensor:
    values: torch.Tensor = getattr(found, "logits", found)
    return values


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Train in place, with momentum, which none of Fedleak's optimizers has."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.5)
    for _ in range(EPOCHS):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits(net(inputs)), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def plain_train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """The same without momentum."""
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for _ in range(EPOCHS):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits(net(inputs)), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def broken_train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    raise RuntimeError("no such device")


def idle_train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Returns what it trained instead of changing the module."""
    return Net()


def diverging_train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(float("nan"))
