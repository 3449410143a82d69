"""A real FedAvg loop in torch, recorded by the real recorder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from clinic_app.data import CLINICS, clinic
from clinic_app.task import Net, plain_train
from repeatable import same_pseudonyms
from torch import nn

from fedleak.record.recorder import Recorder, Reply

PLAN = """
title = "clinics"
[trace]
path = "run"
[truth]
owners = "key"
[prior]
data = "clinic_app.audit:prior"
[model]
name = "clinic_app.task:Net"
[federation]
lr = 0.1
epochs = 2
batch = 8
"""
ATTACKS = """
[[attack]]
name = "reid-strong"
snapshots = 4
divisions = 2
[[attack]]
name = "reid-knn"
"""


def record_run(
    folder: Path,
    *,
    net: Callable[[], nn.Module] = Net,
    train: Callable[[nn.Module, Any, Any], None] = plain_train,
    rounds: int = 14,
    present: int = 6,
    named: bool = True,
    identify: bool = True,
    close: bool = True,
    clinics: int = CLINICS,
    data: Callable[[int], Any] = lambda who: clinic(who, "private"),
    skip_rounds: tuple[int, ...] = (),
    **settings: Any,
) -> Path:
    """Train a federation of clinics, as its own program would, with a recorder beside the server."""
    rng = np.random.default_rng(3)
    with same_pseudonyms(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = net()
        recorder = Recorder(folder, origin={"framework": "torch", "version": "loop", "strategy": "FedAvg"}, **settings)
        for number in range(1, rounds + 1):
            start = {key: value.clone() for key, value in model.state_dict().items()}
            recorder.sent(_arrays(start, named))
            chosen = rng.choice(clinics, present, replace=False).tolist()
            replies, states = [], []
            for who in [] if number in skip_rounds else chosen:
                local = net()
                local.load_state_dict(start)
                x, y = data(who)
                train(local, torch.from_numpy(x), torch.from_numpy(y))
                states.append(local.state_dict())
                replies.append(
                    Reply(
                        client=f"node-{1000 + who}",
                        arrays=_arrays(local.state_dict(), named),
                        examples=len(x),
                        partition=str(who) if identify else None,
                    )
                )
            if states:
                model.load_state_dict({key: _mean([state[key] for state in states]) for key in start})
            lost = [(f"node-{1000 + chosen[0]}", "timed out")] if number in skip_rounds else []
            recorder.received(replies, lost, after=_arrays(model.state_dict(), named))
        if close:
            recorder.close()
        else:
            recorder._held.close()  # as if the process had been killed: no closed.json, and the lock is free
            recorder.active = False
    return folder


def _mean(values: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(values).float().mean(0).to(values[0].dtype)


def _arrays(state: dict[str, torch.Tensor], named: bool) -> dict[str, Any]:
    values = {key: value.detach().clone().numpy() for key, value in state.items()}
    return values if named else {f"array-{n:03}": value for n, value in enumerate(values.values())}
