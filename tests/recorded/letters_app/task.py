"""A language model over characters, and its local training."""

from __future__ import annotations

import torch
from torch import nn

ALPHABET = "\n 0123456789abinp"  # the end of a line has the token id 0


class CharNet(nn.Module):
    """What every tutorial has: an embedding, an LSTM and an output for each character."""

    def __init__(self, outputs: int = len(ALPHABET)) -> None:
        super().__init__()
        self.embedding = nn.Embedding(outputs, 8)
        self.lstm = nn.LSTM(8, 32, batch_first=True)
        self.out = nn.Linear(32, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.lstm(self.embedding(x))[0])
        return found


class Wider(CharNet):
    """Padded to a multiple of eight, as models often are."""

    def __init__(self) -> None:
        super().__init__(24)


def train(net: nn.Module, x: torch.Tensor) -> None:
    """One epoch."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for batch in x[torch.randperm(len(x))].split(8):  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        logits = net(batch[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
