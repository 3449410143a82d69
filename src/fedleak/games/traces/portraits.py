"""The contract trace of reconstruction attacks: a small federation of clients with digits of two classes each.

With a leak, images are marked against what the clients trained on. Without, the truth names the data of users who
took no part: what is found then is not there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from fedleak.core import Capability, Params, Task, UserId, rng_for
from fedleak.federation.affiliated_server import AffiliatedServer
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.gan_client import ClassGan, Joined
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.federation.tampering import NOTHING, Tampering
from fedleak.games.traces.record import public_only, record
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import FederationPlan, IsolatePlan, JoinPlan, PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.prepare import Prepared, prepare
from fedleak.trace.evidence import Evidence
from fedleak.trace.truth import Truth

__all__ = ["write_images"]

CLIENTS, VICTIMS = 8, 6
DATA = MnistClients(source="digits", clients=2 * CLIENTS, examples=24, classes=2, auxiliary=600)
ARCHITECTURE = StridedCnn(channels=(4, 8), strides=(2, 1), activation="elu")
PLAN = FederationPlan(rounds=4, fraction=1.0, batch=8, lr=0.05)
JOIN = JoinPlan(fakes=12, own=12, width=0.1)
GAN = IsolatePlan(sent="discriminator", batch=16, width=0.1)
SHAPE, CLASSES = (1, 8, 8), 10


def write_images(
    folder: Path, seed: int, *, leak: bool, power: Capability = Capability.NONE, discriminator: int = 0
) -> Path:
    """Record the federation of a seed, with the users' own data as the truth or that of other users.

    Isolated clients are sent a discriminator, where a number of generator steps per round is given for it.
    """
    prepared, clients, told, start, rounds = _trained(seed, power, discriminator)
    evidence = Evidence.of(prepared)
    if not leak:
        strangers = evidence.bystanders.examples[:CLIENTS]
        evidence = replace(evidence, held=replace(evidence.held, examples=strangers))
    users = {share.user.id: share.user for share in prepared.shares}
    Truth(
        users=tuple(users),
        client_user={client.id: client.user for client in clients if client.user in users},
        attributes={user.id: user.attributes for user in users.values()},
        evidence=evidence,
    ).save(folder / "truth")
    public_only(prepared).save(folder / "prior")
    signature = Signature(Task.CLASSIFY, SHAPE, CLASSES + (Capability.JOIN in power))
    name = f"images-{seed}-{leak}-{power}-{discriminator}"
    return record(folder, name, ARCHITECTURE, signature, PLAN, clients, start, rounds, told)


def affiliated(prepared: Prepared, steps: int) -> AffiliatedServer:
    """The server that sends isolated clients its discriminator."""
    signature = Signature(Task.CLASSIFY, SHAPE, CLASSES)
    return AffiliatedServer(ARCHITECTURE, signature, replace(GAN, steps=steps), prepared.public, PLAN.rounds, 0)


@cache
def _trained(
    seed: int, power: Capability, discriminator: int
) -> tuple[Prepared, tuple[Client, ...], tuple[dict[str, object], ...], Params, list[Round]]:
    """Train once for all attacks, with and without a leak."""
    prepared = prepare(DATA, PopulationPlan(prior="none", users=CLIENTS), seed)
    clients = make_clients(prepared.shares, seed)
    model = ARCHITECTURE.build(Signature(Task.CLASSIFY, SHAPE, CLASSES + (Capability.JOIN in power)))
    tampering, told = NOTHING, tuple[dict[str, object], ...]()
    if Capability.ISOLATE in power:
        chosen = rng_for(seed, "contract isolate").choice(len(clients), VICTIMS, replace=False).tolist()
        affiliate = affiliated(prepared, discriminator) if discriminator else None
        tampering = Tampering(isolated=tuple(sorted(chosen)), affiliate=affiliate)
        told = ({"power": "isolate", "clients": sorted(clients[index].id for index in chosen)},)
        if discriminator:
            told[0].update(
                {"sent": "discriminator", "seed": 0, "steps": discriminator, "batch": GAN.batch, "width": GAN.width}
            )
    if Capability.JOIN in power:
        # The same generator at first in every federation: what it draws then differs only by the models it is shown.
        joined = Joined(ClassGan(model, SHAPE, CLASSES, JOIN, 0), len(clients), prepared.public)
        blank = prepared.shares[0].private.take([0] * (JOIN.fakes + JOIN.own))
        clients = (*clients, Client("d-joined", UserId("adversary"), -1, blank))
        tampering = Tampering(newcomer=joined)
        told = ({"power": "join", "client": "d-joined", "seed": 0, **to_dict(JOIN)},)
    rounds = list(train(model, clients, PLAN, (), None, seed, tampering=tampering))
    return prepared, clients, told, initial(model, seed), rounds
