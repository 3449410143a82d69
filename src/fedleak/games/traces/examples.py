"""The contract trace of attacks that recover examples: a small federation of clients with few digits each.

With a leak, images are scored against what the clients trained on. Without, the truth names examples of users who took
no part: what is recovered then is not there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from fedleak.core import Capability, Params, Task
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.imprint import Imprinted, design
from fedleak.federation.models.strided import StridedCnn
from fedleak.federation.tampering import NOTHING, Tampering
from fedleak.games.traces.record import public_only, record
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import FederationPlan, ImprintPlan, PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.prepare import Prepared, prepare
from fedleak.trace.evidence import Evidence
from fedleak.trace.truth import Truth

__all__ = ["write_examples"]

CLIENTS = 8
DATA = MnistClients(source="digits", clients=2 * CLIENTS, examples=4, classes=4, rotated=0.0, auxiliary=600)
ARCHITECTURE = StridedCnn(channels=(4, 8), strides=(2, 1), activation="elu")
PLAN = FederationPlan(rounds=1, fraction=1.0, batch=4, lr=0.05)
IMPRINT = ImprintPlan(bins=128)
SIGNATURE = Signature(Task.CLASSIFY, (1, 8, 8), 10)


def write_examples(folder: Path, seed: int, *, leak: bool, power: Capability = Capability.NONE) -> Path:
    """Record the federation of a seed, with the users' own data as the truth or that of other users."""
    prepared, clients, model, start, rounds = _trained(seed, power)
    evidence = Evidence.of(prepared)
    if not leak:
        others = evidence.bystanders
        strangers, left = others.examples[:CLIENTS], slice(CLIENTS, None)
        evidence = Evidence(
            held=replace(evidence.held, examples=strangers),
            bystanders=replace(
                others,
                candidates=others.candidates[left],
                examples=others.examples[left],
                attributes=others.attributes[left],
            ),
        )
    users = {share.user.id: share.user for share in prepared.shares}
    Truth(
        users=tuple(users),
        client_user={client.id: client.user for client in clients},
        attributes={user.id: user.attributes for user in users.values()},
        evidence=evidence,
    ).save(folder / "truth")
    public_only(prepared).save(folder / "prior")
    table = to_dict(IMPRINT) if Capability.CHOOSE_MODEL in power else None
    return record(
        folder,
        f"examples-{seed}-{leak}-{power}",
        ARCHITECTURE,
        SIGNATURE,
        PLAN,
        clients,
        start,
        rounds,
        () if table is None else ({"power": "imprint", **table},),
        model=model,
        told={} if table is None else {"imprint": table},
    )


@cache
def _trained(seed: int, power: Capability) -> tuple[Prepared, tuple[Client, ...], Model, Params, list[Round]]:
    """Train once for all attacks, with and without a leak."""
    prepared = prepare(DATA, PopulationPlan(prior="none", users=CLIENTS), seed)
    clients = make_clients(prepared.shares, seed)
    model: Model = ARCHITECTURE.build(SIGNATURE)
    tampering = NOTHING
    if Capability.CHOOSE_MODEL in power:
        assert prepared.public is not None
        imprinted = Imprinted(model, SIGNATURE.input_shape, IMPRINT, design(IMPRINT, prepared.public.x))
        model, tampering = imprinted, Tampering(imprint=imprinted)
    rounds = list(train(model, clients, PLAN, (), None, seed, tampering=tampering))
    return prepared, clients, model, initial(model, seed), rounds
