"""What leaves the clients: updates as the defences change them, of the right shape and finite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import Params, is_buffers
from fedleak.errors import TrainingError
from fedleak.federation.hooks import Defence
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan

__all__ = ["Draws", "apply_update_defences", "finite"]

Draws: TypeAlias = Callable[[int, int], np.random.Generator]
"""The generator of the defence at a place for the client in a row."""


def apply_update_defences(
    rows: Mapping[str, torch.Tensor],
    ids: Sequence[str],
    defended: Sequence[bool],
    defences: Sequence[Defence],
    draws: Draws,
    when: str,
) -> None:
    """Write over each update, a row of every layer, what the defences on its client make of it.

    Buffers are sent as they are: noise or rounding could make a running variance negative, and in a common norm they
    would outweigh the weights.
    """
    rows = {name: values for name, values in rows.items() if not is_buffers(name)}
    for place, defence in enumerate(defences):
        if not defence.overrides("on_update"):
            continue
        for row, client in enumerate(ids):
            if not defended[row]:
                continue
            update: Params = {name: values[row].numpy() for name, values in rows.items()}
            changed = defence.on_update(update, draws(place, row))
            _require_fitting(changed, rows, f"{when}: defence '{defence.name}' on client {client}")
            for name, values in rows.items():
                values[row] = torch.from_numpy(np.asarray(changed[name], dtype=np.float32))


def _require_fitting(update: Params, rows: Mapping[str, torch.Tensor], where: str) -> None:
    """Reject an update whose layers are not the model's; written over the rows it would spoil them silently."""
    if set(update) != set(rows):
        wrong = ", ".join(sorted(set(update) ^ set(rows)))
        raise TrainingError(f"{where} returned layers that do not match the model (in only one of the two: {wrong})")
    for name, values in rows.items():
        if np.shape(update[name]) != tuple(values.shape[1:]):
            raise TrainingError(
                f"{where} returned layer '{name}' with shape {np.shape(update[name])}; the model has {values.shape[1]} "
                "values there. Return a flat array of the same length as the one that was given"
            )


def finite(
    rows: Mapping[str, torch.Tensor], ids: Sequence[str], settings: FederationPlan, number: int
) -> tuple[npt.NDArray[np.bool_], tuple[tuple[str, str], ...]]:
    """Find updates with NaN or infinity, which would destroy everyone's model; stop or leave them out."""
    kept = np.ones(len(ids), dtype=np.bool_)
    # A finite sum has finite terms: one pass over the numbers clears a round, and only a suspect is looked at closely.
    if all(bool(values.sum().isfinite()) for values in rows.values()):
        return kept, ()
    reasons = []
    for row, client in enumerate(ids):
        broken = [name for name, values in rows.items() if not bool(values[row].isfinite().all())]
        if not broken:
            continue
        what = f"NaN or infinity in {', '.join(broken)}"
        if settings.on_nan == "stop":
            raise TrainingError(
                f"round {number}: client {client} sent {what}.\n"
                f"  Try a lower lr (now {settings.lr:g}), "
                + ("a lower clip" if settings.clip else "clip = 1.0")
                + ', or on_nan = "skip" to drop such updates   ([federation] in the plan)'
            )
        kept[row] = False
        reasons.append((client, what))
    return kept, tuple(reasons)
