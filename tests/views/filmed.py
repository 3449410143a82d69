"""Runs of any shape, recorded with updates that say which row they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fedleak.core import IntArray, Layer, Layout, Observation, Params, Task
from fedleak.federation.federation import Round
from fedleak.trace.header import Header
from fedleak.trace.writer import TraceWriter
from fedleak.views.view import View

LAYOUT: Layout = (Layer("in", (("weight", (2, 2)),)), Layer("out", (("weight", (3,)), ("bias", (1,)))))


@dataclass(frozen=True)
class Run:
    clients: int
    present: tuple[tuple[int, ...], ...]  # client indices of each round, in recorded order

    @property
    def senders(self) -> IntArray:
        return np.array([client for present in self.present for client in present], dtype=np.int64)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    clients = draw(st.integers(2, 8))
    present = st.lists(st.integers(0, clients - 1), max_size=clients, unique=True).map(tuple)
    return Run(clients, tuple(draw(st.lists(present, min_size=1, max_size=6))))


def shadows(clients: int) -> tuple[int, ...]:
    """Every other client is the adversary's own."""
    return tuple(index // 2 if index % 2 == 0 else -1 for index in range(clients))


def film(folder: Path, run: Run, **changes: Any) -> Path:
    head = Header(
        **{
            "fingerprint": "plan",
            "rounds": len(run.present),
            "task": Task.CLASSIFY,
            "model": "mlp",
            "layout": LAYOUT,
            "clients": tuple(f"d-{index}" for index in range(run.clients)),
            "shadow": shadows(run.clients),
            "settings": {"lr": 0.5},
            **changes,
        }
    )
    writer = TraceWriter.open(folder, head)
    writer.start(model(0))
    row = 0
    for number, present in enumerate(run.present, start=1):
        writer.append(
            Round(
                number=number,
                clients=np.array(present, dtype=np.int64),
                sizes=np.array(present, dtype=np.int64) + 100,
                updates=rows(row, len(present)),
                aggregate=model(-number),
                weights=model(number),
                dropped=((head.clients[0], "NaN"),),
            )
        )
        row += len(present)
    return folder


def rows(first: int, count: int) -> Params:
    numbers = np.arange(first, first + count, dtype=np.float32)
    return {
        layer.name: numbers[:, None] + np.arange(layer.size, dtype=np.float32) * np.float32(0.125) for layer in LAYOUT
    }


def model(number: int) -> Params:
    return {layer.name: np.full(layer.size, number, np.float32) for layer in LAYOUT}


def everything(view: View) -> list[Any]:
    """Everything that an attack could take out of a view."""
    seen: list[Any] = [view.layout, view.task, view.rounds, view.settings]
    observations = view.adversary.observations
    if Observation.SNAPSHOTS in observations:
        seen += [values.tobytes() for t in range(view.rounds + 1) for values in view.snapshot(t).values()]
    if Observation.MODEL in observations:
        seen += [values.tobytes() for values in view.final.values()]
    if Observation.AGGREGATE in observations:
        seen += [values.tobytes() for t in range(1, view.rounds + 1) for values in view.aggregate(t).values()]
    if Observation.SELECTION in observations:
        seen += [view.selection(t) for t in range(1, view.rounds + 1)]
    if Observation.UPDATES in observations:
        updates = view.updates
        seen += [updates.round.tobytes(), updates.handle.tobytes(), updates.shadow.tobytes()]
        seen.append(None if updates.size is None else updates.size.tobytes())
        for layer in view.layout:
            seen.append(updates.layer(layer.name).tobytes())
            seen.append(b"".join(block.tobytes() for block in updates.blocks(layer.name, 2)))
    return seen
