"""Does a defence change anything that leaves a client, and is what leaves still the raw update?

Two runs of one seed start from the same model with the same draws, so that in the first round whatever differs is the
defence's doing, and nobody needs to train anything to see it.
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

_ALIGNED = 0.95  # a cosine above this: whoever sees what is sent sees the update


def effect(plain: Path, guarded: Path, described: dict[str, Any], hides: Observation) -> Effect:
    """Compare the first rounds of an undefended and of a defended trace; `hides` is what nobody sees any more."""
    before, after = Trace.open(plain), Trace.open(guarded)
    hidden = flag_names(hides) if hides else ""
    if before.header.layout != after.header.layout:
        text = "The model itself is another one, so single updates cannot be compared."
        return Effect(defence=described, clients=0, same=0.0, idle=False, text=text)
    raw, sent = _first(before), _first(after)
    both = sorted(raw.keys() & sent.keys())
    others = not np.array_equal(before.client, after.client)
    moved = any(not np.array_equal(v, after.aggregate(1)[name]) for name, v in before.aggregate(1).items())
    if not both:
        text = "No client that sent something in the undefended first round did so here: other clients take part."
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
    """What each anonymous client sent in the first round, all layers in one piece."""
    span = trace.span(1)
    rows = np.arange(span.start, span.stop)
    rows = rows[np.asarray(trace.shadow)[rows] < 0]  # the adversary's own clients need not defend themselves
    layers = [np.asarray(trace.updates(layer.name)[rows], dtype=np.float64) for layer in trace.header.layout]
    names = [trace.header.clients[int(trace.client[row])] for row in rows]
    return dict(zip(names, np.concatenate(layers, axis=1), strict=True)) if names else {}


def _cosine(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-30))


def _told(same: float, cosine: float, idle: bool, others: bool, moved: bool, hidden: str) -> str:
    if idle:
        return (
            "It does nothing here: every update leaves its client as it would without the defence, the same clients "
            "take part, and the server moves as before."
        )
    parts = []
    if same == 1.0:
        parts.append("Updates leave the clients as they would without it")
    elif cosine > _ALIGNED:
        parts.append(f"What leaves a client still points where the raw update does (cosine {cosine:.2f})")
    else:
        parts.append(f"What leaves a client differs from the raw update (cosine {cosine:.2f})")
    if hidden:
        parts.append(f"nobody sees {hidden} any more")
    if others:
        parts.append("other clients take part")
    if same == 1.0 and moved:
        parts.append("the server moves otherwise")
    return "; ".join(parts) + "."
