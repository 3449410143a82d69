"""Record a trained federation in the format of an audit's run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedleak.core import Params
from fedleak.federation.federation import Client, Round
from fedleak.federation.model import Model, Signature
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import FederationPlan
from fedleak.population.prepare import Prepared
from fedleak.trace.header import Header
from fedleak.trace.prior import Background, Prior
from fedleak.trace.writer import TraceWriter

__all__ = ["record", "public_only"]


def public_only(prepared: Prepared) -> Prior:
    """The prior of an adversary without users' data: the public examples."""
    assert prepared.public is not None
    return Prior(
        candidates=(),
        examples=(),
        task=prepared.task,
        outputs=prepared.outputs,
        background=Background(examples=prepared.public, shows={}),
    )


def record(
    folder: Path,
    name: str,
    architecture: Any,
    signature: Signature,
    plan: FederationPlan,
    clients: Sequence[Client],
    start: Params,
    rounds: Iterable[Round],
    tampering: tuple[dict[str, object], ...] = (),
    *,
    model: Model | None = None,
    told: Mapping[str, Any] | None = None,
) -> Path:
    """Write the trace of these rounds below a folder, and return the folder.

    `model` is what was trained, if it is not what the architecture builds; `told` is what clients are told of it.
    """
    header = Header(
        fingerprint=f"contract {name}",
        rounds=plan.rounds,
        task=signature.task,
        model=architecture.name,
        layout=(model or architecture.build(signature)).layout,
        clients=tuple(client.id for client in clients),
        shadow=tuple(client.shadow for client in clients),
        settings={
            **to_dict(plan),
            "architecture": to_dict(architecture),
            "input_shape": list(signature.input_shape),
            "outputs": signature.outputs,
            **(told or {}),
        },
        tampering=tampering,
    )
    writer = TraceWriter.open(folder / "trace", header)
    writer.start(start)
    for done in rounds:
        writer.append(done)
    return folder
