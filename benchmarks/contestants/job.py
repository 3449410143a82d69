"""The job that every contestant of benchmarks/engine.py does; needs numpy and torch only.

100 clients, 20 of them a round, 40 examples each, batches of 10, one epoch, plain SGD. Data, selection and initial
weights come from a file, so that all contestants start from and are shown the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import nn

CLIENTS, PER_ROUND, EXAMPLES, BATCH, ROUNDS = 100, 20, 40, 10, 30
LR = {"mlp-5k": 0.1, "mlp-80k": 0.1, "cnn": 0.1, "lstm": 4.0}
CLIP = {"lstm": 5.0}
VOCABULARY, LENGTH = 500, 16

Arrays = Mapping[str, npt.NDArray[Any]]


class Mlp(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.fc1, self.out = nn.Linear(inputs, hidden), nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(F.relu(self.fc1(x.flatten(1))))
        return y


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.fc, self.out = nn.Linear(784, 32), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        y: torch.Tensor = self.out(F.relu(self.fc(x.flatten(1))))
        return y


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 100)
        self.lstm = nn.LSTM(100, 64, batch_first=True)
        self.out = nn.Linear(64, VOCABULARY)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.lstm(self.embedding(x))[0])
        return y


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "mlp-5k": lambda: Mlp(64, 64),
    "mlp-80k": lambda: Mlp(784, 100),
    "cnn": Cnn,
    "lstm": Lstm,
}


def loss_of(name: str, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean loss of a batch; the language model predicts each next word."""
    if name == "lstm":
        return F.cross_entropy(module(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
    return F.cross_entropy(module(x), y)


def accuracy(name: str, module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Share of right classes, or of next words among the five likeliest."""
    with torch.no_grad():
        if name == "lstm":
            targets = x[:, 1:].flatten()
            outputs = module(x[:, :-1]).flatten(0, 1)
            outputs[:, :2] = -torch.inf
            hits = (outputs.topk(5).indices == targets.unsqueeze(1)).any(1)
            return float(hits[targets > 1].float().mean())
        return float((module(x).argmax(1) == y).float().mean())


def load(path: Path) -> Arrays:
    """Read a job: x (clients, examples, ...), y, test_x, test_y, selected (rounds, clients), and w/ initial weights."""
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def start(name: str, job: Arrays) -> nn.Module:
    """A module with the job's initial weights."""
    module = MODELS[name]()
    module.load_state_dict({key[2:]: torch.from_numpy(job[key]) for key in job if key.startswith("w/")})
    return module


def held_out(job: Arrays) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(job["test_x"]), torch.from_numpy(job["test_y"])


Mark = tuple[float, float]


def now() -> Mark:
    """The clock on the wall and this process's use of the processor, which a busy machine does not stretch."""
    return time.perf_counter(), time.process_time()


def report(began: Mark, marks: list[Mark], score: float) -> None:
    """Print one line: wall and processor seconds of each round (the first with what came before it), and accuracy."""
    wall, processor = (
        [after[clock] - before[clock] for before, after in zip([began, *marks], marks, strict=False)]
        for clock in range(2)
    )
    sys.stdout.write("RESULT " + json.dumps({"wall": wall, "processor": processor, "accuracy": score}) + "\n")
