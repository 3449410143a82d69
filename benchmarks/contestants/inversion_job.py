"""The job of benchmarks/peers.py that every contestant for gradient inversion does; needs numpy and torch only.

One client's update of a strided convolutional network, with what an attacker is told. The examples themselves are in
the file too: a peer's own training code must make the same update of them, or it would solve another problem.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

CHANNELS, STRIDES, SIDE, CLASSES = (8, 16, 32), (2, 2, 1), 28, 10
APART = 1e-3  # an imitated update differs from the real one by at most this share of its length: float32 rounding


class StridedCnn(nn.Module):
    """Fedleak's strided-cnn [8, 16, 32] with ELU, as a module of torch; its parameters are in the same order."""

    def __init__(self) -> None:
        super().__init__()
        before, side = 1, SIDE
        for number, (channels, stride) in enumerate(zip(CHANNELS, STRIDES, strict=True), 1):
            setattr(self, f"conv{number}", nn.Conv2d(before, channels, 3, stride=stride, padding=1))
            before, side = channels, -(-side // stride)
        self.out = nn.Linear(before * side * side, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(1, len(CHANNELS) + 1):
            x = nn.functional.elu(getattr(self, f"conv{number}")(x))
        found: torch.Tensor = self.out(x.flatten(1))
        return found


@dataclass(frozen=True)
class Job:
    """One client: what it sent, and how it trained."""

    weights: Mapping[str, torch.Tensor]
    update: Mapping[str, torch.Tensor]
    labels: torch.Tensor  # in the order in which the client saw them: batch by batch, the same in every epoch
    images: torch.Tensor  # the truth, in the same order; only for the check of the update
    batch: int
    epochs: int
    lr: float

    @property
    def module(self) -> nn.Module:
        """The network with the weights that the client was sent."""
        module = StridedCnn()
        module.load_state_dict(dict(self.weights))
        return module

    @property
    def batches(self) -> Sequence[slice]:
        """The examples of each local step."""
        return [slice(at, at + self.batch) for _ in range(self.epochs) for at in range(0, len(self.labels), self.batch)]

    def check(self, made: Sequence[torch.Tensor], who: str) -> None:
        """End with an error if a contestant's training of the true examples gives another update than the client's."""
        sent = torch.cat([self.update[key].flatten() for key in self.weights])
        own = torch.cat([part.detach().flatten() for part in made])
        apart = float((own - sent).norm() / sent.norm())
        if not apart < APART:
            sys.exit(f"{who} imitates another update than the client's: they differ by {apart:.2g} of its length")


def load(path: Path) -> Job:
    """Read a job."""
    with np.load(path, allow_pickle=False) as file:
        found: Mapping[str, npt.NDArray[Any]] = dict(file)

    def part(prefix: str) -> dict[str, torch.Tensor]:
        return {key[2:]: torch.from_numpy(value) for key, value in found.items() if key.startswith(prefix)}

    return Job(
        part("w/"),
        part("u/"),
        torch.from_numpy(found["labels"]),
        torch.from_numpy(found["images"]),
        int(found["batch"]),
        int(found["epochs"]),
        float(found["lr"]),
    )


def report(images: torch.Tensor, began: float, path: Path, **more: object) -> None:
    """Save the images, and print the processor seconds since `began` (time.process_time)."""
    seconds = time.process_time() - began
    np.save(path, images.detach().numpy().astype(np.float32))
    sys.stdout.write("RESULT " + json.dumps({"cpu": seconds, "torch": torch.__version__, **more}) + "\n")
