"""Small runs whose every byte follows from a number, and the ways in which tests read them back."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.core import Layer, Layout, Params, Task, rng_for
from fedleak.federation.federation import Round
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter

LAYOUT: Layout = (
    Layer("hidden", (("weight", (4, 3)), ("bias", (4,)))),
    Layer("../../out", (("weight", (2, 4)), ("bias", (2,)))),  # a layer's name must never become a path
)


def header(**changes: Any) -> Header:
    clients = changes.pop("count", 6)
    values: dict[str, Any] = {
        "fingerprint": "plan-1",
        "rounds": 4,
        "task": Task.CLASSIFY,
        "model": "mlp",
        "layout": LAYOUT,
        "clients": tuple(f"d-{index}" for index in range(clients)),
        "shadow": tuple(index if index < clients // 2 else -1 for index in range(clients)),
        "settings": {"lr": 0.1, "epochs": 1},
    }
    return Header(**{**values, **changes})


def params(layout: Layout, rows: tuple[int, ...], *path: Any) -> Params:
    return {
        layer.name: rng_for(1, layer.name, *path).standard_normal((*rows, layer.size), dtype=np.float32)
        for layer in layout
    }


def a_round(head: Header, number: int, per_round: int = 3) -> Round:
    clients = rng_for(2, number).permutation(len(head.clients))[:per_round]
    return Round(
        number=number,
        clients=clients,
        sizes=clients * 7 + number,
        updates=params(head.layout, (per_round,), "update", number),
        aggregate=params(head.layout, (), "aggregate", number),
        weights=params(head.layout, (), "weights", number),
        dropped=((head.clients[0], "NaN in hidden"),) if number % 2 else (),
    )


def record(folder: Path, head: Header, until: int | None = None, per_round: int = 3) -> TraceWriter:
    """Begin or go on, exactly as a run does."""
    writer = TraceWriter.open(folder, head)
    if writer.weights is None:
        writer.start(params(head.layout, (), "weights", 0))
    for number in range(writer.rounds + 1, (until or head.rounds or 0) + 1):
        writer.append(a_round(head, number, per_round))
    return writer


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def everything(folder: Path) -> list[bytes]:
    """All data that a reader can get out of a trace."""
    trace = Trace.open(folder)
    trace.verify()
    found = [repr((trace.header, trace.rounds, trace.finished, *trace.dropped())).encode()]
    found += [np.asarray(column).tobytes() for column in (trace.round, trace.client, trace.shadow, trace.size)]
    for layer in trace.header.layout:
        found.append(np.asarray(trace.updates(layer.name)).tobytes())
        found.append(b"".join(block.tobytes() for block in trace.blocks(layer.name, 2)))
    for number in range(trace.rounds + 1):
        found += [values.tobytes() for values in trace.snapshot(number).values()]
    for number in range(1, trace.rounds + 1):
        found += [values.tobytes() for values in trace.aggregate(number).values()]
    return found


def append_forever(folder: str, head: Header, per_round: int) -> None:
    """What the killed process of a test does."""
    record(Path(folder), head, per_round=per_round)


def processes() -> ForkServerContext:
    """Real processes, forked from a server that has loaded this module, so that each starts at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["recorded"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    try:
        ensure_running()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    return context
