"""Apply the capabilities of a plan to a run: which client is isolated, which joins, and what the header records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedleak.core import UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.affiliated_server import AffiliatedServer
from fedleak.federation.federation import Client
from fedleak.federation.gan_client import ClassGan, Joined
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.models.imprint import Imprinted, design, fits_imprint
from fedleak.federation.proxies import proxies
from fedleak.federation.tampering import Isolation, Tampering, victims
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.prepare import Prepared
from fedleak.trace.reader import Trace

__all__ = ["imprinted", "tamper", "resumed"]


def tamper(
    plan: Plan, prepared: Prepared, model: Model, clients: Sequence[Client], seed: int
) -> tuple[tuple[Client, ...], Tampering, tuple[dict[str, Any], ...]]:
    """The clients including the adversary's, what is done to them, and what the header records."""
    told: list[dict[str, Any]] = []
    isolated: tuple[int, ...] = ()
    newcomer, affiliate = None, None
    imprint = model if isinstance(model, Imprinted) else None
    clients = tuple(clients)
    if plan.imprint is not None:
        told.append({"power": "imprint", **to_dict(plan.imprint)})
    if plan.inject is not None:
        told.append({"power": "inject", **to_dict(plan.inject)})
    if plan.isolate is not None:
        if plan.record.dtype != "float32":
            raise PlanError("[isolate]: an isolated model is a sum of updates, which float16 cannot store; use float32")
        names = [client.id for client in clients if client.shadow < 0]
        owners = {client.id: str(client.user) for client in clients if client.shadow < 0}
        chosen = {names[place] for place in victims(plan.isolate, owners, names, seed)}
        isolated = tuple(index for index, client in enumerate(clients) if client.id in chosen)
        told.append({"power": "isolate", "clients": sorted(chosen)})
        if plan.isolate.sent == "discriminator":
            gan_seed = int(rng_for(seed, "isolate", "gan").integers(1 << 31))
            signature = Signature(prepared.task, prepared.input_shape, prepared.outputs + (plan.join is not None))
            affiliate = AffiliatedServer(
                plan.model, signature, plan.isolate, prepared.public, plan.federation.rounds, gan_seed
            )
            # Not `user`: whose client it is, the trace never says.
            told[-1] |= {k: v for k, v in to_dict(plan.isolate).items() if k not in ("user", "victims")}
            told[-1]["seed"] = gan_seed
    if plan.join is not None:
        own_seed = int(rng_for(seed, "join").integers(1 << 31))
        gan = ClassGan(model, prepared.input_shape, prepared.outputs, plan.join, own_seed)
        joined = Joined(gan, len(clients), prepared.public)
        name = next(n for n in _names(seed) if n not in {client.id for client in clients})
        # Blank images are placeholders for those generated when the first round begins.
        count = plan.join.fakes + plan.join.own
        blank = prepared.shares[0].private.take(np.zeros(count, dtype=np.int64))
        clients = (*clients, Client(name, UserId("adversary"), -1, blank))
        newcomer = joined
        told.append({"power": "join", "client": name, "seed": own_seed, **to_dict(plan.join)})
    if plan.proxy is not None:
        clients = (*clients, *proxies(plan.proxy, prepared.public, prepared.shows, clients, seed))
    return clients, Tampering(isolated, newcomer, affiliate, imprint), tuple(told)


def imprinted(plan: Plan, model: Model, prepared: Prepared) -> Model:
    """The model with the block of the plan's table [imprint] in front, its thresholds set by the public examples."""
    assert plan.imprint is not None
    if Input.NUMBERS not in plan.model.reads or (why := fits_imprint(model)):
        why = "it reads tokens" if Input.NUMBERS not in plan.model.reads else why
        raise PlanError(
            f"[imprint]: model '{plan.model.name}' has no place for an imprint block: {why}. Choose a model that takes "
            "numbers, such as 'cnn', 'strided-cnn' or 'mlp'"
        )
    if prepared.public is None:
        raise PlanError(
            "[imprint]: the server has no public examples to set the thresholds of the bins by; use a data set that "
            "has some (mnist-clients), or reserve some users with background_users = N in [population]"
        )
    size = 4 * plan.imprint.bins * (int(np.prod(prepared.input_shape)) + 4) / 2**20
    if size > plan.audit.memory:
        raise PlanError(
            f"[imprint] bins = {plan.imprint.bins}: the block takes {size:,.0f} MB in every update, more than "
            f"[audit] memory = {plan.audit.memory}; use fewer bins, or raise the memory"
        )
    return Imprinted(model, prepared.input_shape, plan.imprint, design(plan.imprint, prepared.public.x))


def _names(seed: int) -> list[str]:
    return [f"d-{number:06x}" for number in rng_for(seed, "join", "name").integers(16**6, size=1000).tolist()]


def resumed(trace: Trace, tampering: Tampering) -> Isolation | None:
    """Restore the adversary's own state when a run is resumed, from what was recorded."""
    if isinstance(tampering.newcomer, Joined):
        for number in range(1, trace.rounds + 1):
            tampering.newcomer.gan.learn(number, trace.snapshot(number - 1))
    if not tampering.isolated:
        return None
    isolation = Isolation(trace.snapshot(0), tampering.isolated, tampering.affiliate)
    layers = {layer.name: trace.updates(layer.name) for layer in trace.header.layout}
    for row, client in enumerate(trace.client):
        if int(client) in isolation.models:
            isolation.move(int(client), {name: values[row] for name, values in layers.items()})
    return isolation
