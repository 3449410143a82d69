"""Small recorded runs, written by a real recorder."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.record.recorder import Recorder, Reply

CLIENTS = 6


def record_run(
    folder: Path,
    *,
    clients: int = CLIENTS,
    rounds: int = 4,
    lost: Sequence[tuple[str, str]] = (),
    integers: bool = False,
    reason: str | None = "",
    identified: bool = True,
    again: bool = False,
    strategy: str = "FedAvg",
    **options: Any,
) -> Path:
    """Clients that add noise of their own to a model of two layers and a BatchNorm; `reason` None: not closed.

    With `again` the server starts a second time, from another model.
    """
    rng = np.random.default_rng(0)
    model = {
        "fc.weight": rng.normal(size=(4, 12)).astype(np.float32),
        "fc.bias": np.zeros(4, np.float32),
        "bn.running_mean": np.zeros(4, np.float32),
        "out.weight": rng.normal(size=(3, 4)).astype(np.float32),
    }
    if integers:
        model["bn.num_batches_tracked"] = np.asarray(3)
    for _ in range(1 + again):
        recorder = Recorder(
            folder, origin={"framework": "flower", "version": "1.41.0", "strategy": strategy}, **options
        )
        for number in range(rounds):
            recorder.sent(model)
            replies = [
                Reply(
                    client=f"node-{one}",
                    arrays={
                        name: value + 0.1 * rng.normal(size=value.shape).astype(np.float32)
                        if value.dtype.kind == "f"
                        else value
                        for name, value in model.items()
                    },
                    examples=10 + one,
                    partition=str(one) if identified else None,
                )
                for one in range(clients)
                if (one + number) % 2
            ]
            model = {name: value + np.asarray(0.01).astype(value.dtype) for name, value in model.items()}
            recorder.received(replies, lost=lost if number == 0 else (), after=model)
        if reason is not None:
            recorder.close(reason)
        model = {name: 2 * value for name, value in model.items()}
    return folder


def write_app(folder: Path, monkeypatch: Any, *, users: int = CLIENTS, examples: int = 16) -> None:
    """A module `tiny_app` with the auditor's data and the model, importable from the working directory."""
    (folder / "tiny_app.py").write_text(
        textwrap.dedent(
            f"""
            import numpy as np
            from torch import nn

            USERS = [str(number) for number in range({users})]


            def prior():
                rng = np.random.default_rng(0)
                return {{
                    user: (
                        rng.normal(size=({examples}, 12)).astype(np.float32) + number,
                        np.arange({examples}) % 3,
                    )
                    for number, user in enumerate(USERS)
                }}


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc, self.out = nn.Linear(12, 4), nn.Linear(4, 3, bias=False)

                def forward(self, x):
                    return self.out(self.fc(x).relu())
            """
        )
    )
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "tiny_app", raising=False)


PLAN = """
title = "tiny"
[trace]
path = "run"
[truth]
owners = "key"
[prior]
data = "tiny_app:prior"
[model]
name = "tiny_app:Net"
[federation]
lr = 0.1
batch = 8
[[attack]]
name = "reid-svm"
"""
