"""The capabilities of a plan applied to a run: who is isolated, who joins, and what the header says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedleak.core import UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.federation import Device
from fedleak.federation.gan_client import ClassGan, Joined
from fedleak.federation.model import Model
from fedleak.federation.tampering import Isolation, Tampering, victims
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.prepare import Prepared
from fedleak.trace.reader import Trace

__all__ = ["tamper", "resumed"]


def tamper(
    plan: Plan, prepared: Prepared, model: Model, members: Sequence[Device], seed: int
) -> tuple[tuple[Device, ...], Tampering, tuple[dict[str, Any], ...]]:
    """The devices with those of the adversary's, what is done to them, and how the header tells it."""
    told: list[dict[str, Any]] = []
    isolated: tuple[int, ...] = ()
    newcomer = None
    members = tuple(members)
    if plan.inject is not None:
        told.append({"power": "inject", **to_dict(plan.inject)})
    if plan.isolate is not None:
        if plan.record.dtype != "float32":
            raise PlanError("[isolate]: an isolated model is the sum of its updates, and float16 would lose some of it")
        names = [device.id for device in members if device.shadow < 0]
        owners = {device.id: str(device.user) for device in members if device.shadow < 0}
        chosen = {names[place] for place in victims(plan.isolate, owners, names, seed)}
        isolated = tuple(index for index, device in enumerate(members) if device.id in chosen)
        told.append({"power": "isolate", "devices": sorted(chosen)})
    if plan.join is not None:
        own_seed = int(rng_for(seed, "join").integers(1 << 31))
        gan = ClassGan(model, prepared.input_shape, prepared.outputs, plan.join, own_seed)
        joined = Joined(gan, len(members), prepared.public)
        name = next(n for n in _names(seed) if n not in {device.id for device in members})
        # Blank pictures hold the place of those that are generated when the first round begins.
        count = plan.join.fakes + plan.join.own
        blank = prepared.shares[0].private.take(np.zeros(count, dtype=np.int64))
        members = (*members, Device(name, UserId("adversary"), -1, blank))
        newcomer = joined
        told.append({"power": "join", "device": name, "seed": own_seed, **to_dict(plan.join)})
    return members, Tampering(isolated, newcomer), tuple(told)


def _names(seed: int) -> list[str]:
    return [f"d-{number:06x}" for number in rng_for(seed, "join", "name").integers(16**6, size=1000).tolist()]


def resumed(trace: Trace, tampering: Tampering) -> Isolation | None:
    """Where the adversary's own work stood when a run was stopped: it follows from what is recorded."""
    if isinstance(tampering.newcomer, Joined):
        for number in range(1, trace.rounds + 1):
            tampering.newcomer.gan.learn(number, trace.snapshot(number - 1))
    if not tampering.isolated:
        return None
    isolation = Isolation(trace.snapshot(0), tampering.isolated)
    layers = {layer.name: trace.updates(layer.name) for layer in trace.header.layout}
    for row, device in enumerate(trace.device):
        if int(device) in isolation.models:
            isolation.move(int(device), {name: values[row] for name, values in layers.items()})
    return isolation
