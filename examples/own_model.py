"""Two models of your own, and a small table to audit them on.

python own_model.py              writes shops.csv
fedleak audit own_model.toml     audits the first model below on it; name = "own_model:normalised" is the second
"""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from torch import nn

from fedleak import Signature, rng_for

__all__ = ["build", "normalised", "write_table"]


def build(signature: Signature) -> nn.Module:
    """Any torch.nn.Module will do.

    Here one that predicts a number; `signature` gives the shape of an example and how many outputs are expected.
    """
    return nn.Sequential(nn.Linear(signature.input_shape[0], 16), nn.Tanh(), nn.Linear(16, signature.outputs))


class Normalised(nn.Module):
    """BatchNorm and dropout are trained as in PyTorch; outputs may be in a dict, as models of transformers return them.

    What the clients do with the running statistics of BatchNorm, `buffers` in [model] says.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.1))
        self.out = nn.Linear(16, outputs)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """The outputs are called `logits`, also where they are numbers."""
        return {"logits": self.out(self.body(x))}


def normalised(signature: Signature) -> nn.Module:
    """The second model."""
    return Normalised(signature.input_shape[0], signature.outputs)


def write_table(path: Path, shops: int = 12, days: int = 40) -> None:
    """Write made-up takings: every shop has its own way of depending on weather, weekday and price."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["shop", "temperature", "weekday", "price", "takings"])
        for shop in range(shops):
            rng = rng_for(0, "takings", shop)
            habit = [1.0, 0.5, -1.0] + 0.5 * rng.normal(size=3)  # what all shops share, and what is their own
            for _ in range(days):
                day = rng.normal(size=3)
                rows.writerow([f"shop-{shop:02}", *day.round(3), round(float(day @ habit + rng.normal() / 10), 3)])


if __name__ == "__main__":
    write_table(Path("shops.csv"))
