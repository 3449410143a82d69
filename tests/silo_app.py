"""Hospitals with patients, recorded while they train in this process, and the auditor's view of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedleak.record.recorder import Recorder, Reply

HOSPITALS = int(os.environ.get("SILO_APP_HOSPITALS", "5"))
PATIENTS, VISITS, WIDTH = 5, 12, 8


class Net(nn.Module):
    """One hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(WIDTH, 12), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.fc(x).relu())  # type: ignore[no-any-return]


def draw(hospital: int, patient: int, part: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    devices = np.random.default_rng([1, hospital]).normal(size=WIDTH)
    rng = np.random.default_rng([1, hospital, patient, part])
    y = np.arange(VISITS) % 3
    illnesses = np.random.default_rng([1]).normal(size=(3, WIDTH))
    return (illnesses[y] + devices + 0.5 * rng.normal(size=(VISITS, WIDTH))).astype(np.float32), y


def owners() -> dict[str, list[str]]:
    return {str(hospital): [f"p-{hospital}-{n}" for n in range(PATIENTS)] for hospital in range(HOSPITALS)}


def prior() -> dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    return {f"p-{hospital}-{n}": draw(hospital, n, 0) for hospital in range(HOSPITALS) for n in range(PATIENTS)}


def train_and_record(folder: Path, rounds: int = 6) -> None:
    torch.manual_seed(0)
    model = {name: value.numpy().copy() for name, value in Net().state_dict().items()}
    recorder = Recorder(folder, origin={"framework": "silo_app", "version": "1", "strategy": "FedAvg"})
    for _ in range(rounds):
        recorder.sent(model)
        replies = []
        for hospital in range(HOSPITALS):
            net = Net()
            net.load_state_dict({name: torch.from_numpy(value) for name, value in model.items()})
            x, y = (
                np.concatenate(column) for column in zip(*(draw(hospital, n, 1) for n in range(PATIENTS)), strict=True)
            )
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for batch in torch.split(torch.randperm(len(x)), 10):
                optimizer.zero_grad()
                functional.cross_entropy(net(torch.from_numpy(x)[batch]), torch.from_numpy(y)[batch]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            arrays = {name: value.detach().numpy() for name, value in net.state_dict().items()}
            replies.append(Reply(client=f"node-{hospital}", arrays=arrays, examples=len(x), partition=str(hospital)))
        model = {name: np.mean([reply.arrays[name] for reply in replies], axis=0) for name in model}
        recorder.received(replies, after=model)
    recorder.close()
