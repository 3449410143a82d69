"""Measure how a defence changes updates, and whether what is sent still resembles the raw update.

Two runs of one seed start from the same model with the same random draws, so every difference in the first round is due
to the defence, and one round is enough to measure it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import Observation, flag_names
from fedleak.results.defence_results import Effect
from fedleak.trace.reader import Trace

__all__ = ["effect"]

_ALIGNED = 0.95  # a cosine above this: what is sent still reveals the update


def effect(plain: Path, guarded: Path, described: dict[str, Any], hides: Observation) -> Effect:
    """Compare the first rounds of an undefended and of a defended trace; `hides` is what no adversary sees."""
    before, after = Trace.open(plain), Trace.open(guarded)
    hidden = flag_names(hides) if hides else ""
    if before.header.layout != after.header.layout:
        text = "The defence changes the model, so single updates cannot be compared."
        return Effect(defence=described, clients=0, same=0.0, idle=False, text=text)
    raw, sent = _first(before), _first(after)
    both = sorted(raw.keys() & sent.keys())
    others = not np.array_equal(before.client, after.client)
    moved = any(not np.array_equal(v, after.aggregate(1)[name]) for name, v in before.aggregate(1).items())
    if not both:
        text = "Different clients take part: none that sent an update in the undefended first round did so here."
        return Effect(defence=described, clients=0, same=0.0, idle=not (others or moved or hides), text=text)
    same = float(np.mean([np.array_equal(raw[name], sent[name]) for name in both]))
    cosines = [_cosine(raw[name], sent[name]) for name in both]
    norms = [float(np.linalg.norm(sent[name]) / max(float(np.linalg.norm(raw[name])), 1e-30)) for name in both]
    idle = same == 1.0 and not (others or moved or hides)
    return Effect(
        defence=described,
        clients=len(both),
        same=same,
        cosine=float(np.mean(cosines)),
        cosine_low=min(cosines),
        cosine_high=max(cosines),
        norm=float(np.mean(norms)),
        idle=idle,
        text=_told(same, float(np.mean(cosines)), idle, others, moved, hidden),
    )


def _first(trace: Trace) -> dict[str, npt.NDArray[np.float64]]:
    """The update of each anonymous client in the first round, all layers concatenated."""
    span = trace.span(1)
    rows = np.arange(span.start, span.stop)
    rows = rows[np.asarray(trace.shadow)[rows] < 0]  # shadow clients need not apply the defence
    layers = [np.asarray(trace.updates(layer.name)[rows], dtype=np.float64) for layer in trace.header.layout]
    names = [trace.header.clients[int(trace.client[row])] for row in rows]
    return dict(zip(names, np.concatenate(layers, axis=1), strict=True)) if names else {}


def _cosine(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))


def _told(same: float, cosine: float, idle: bool, others: bool, moved: bool, hidden: str) -> str:
    if idle:
        return (
            "It has no effect here: updates, participating clients and the aggregate of the first round are the same "
            "as without the defence."
        )
    parts = []
    if same == 1.0:
        parts.append("Updates are the same as without it")
    elif cosine > _ALIGNED:
        parts.append(f"What a client sends still points in the direction of the raw update (cosine {cosine:.2f})")
    else:
        parts.append(f"What a client sends differs from the raw update (cosine {cosine:.2f})")
    if hidden:
        parts.append(f"{hidden} is taken to be hidden from every adversary")
    if others:
        parts.append("different clients take part")
    if same == 1.0 and moved:
        parts.append("the aggregate differs")
    return "; ".join(parts) + "."
