"""The contract trace of linking attacks: a small federation of clients with few digits each.

Without a leak, every round's updates are handed to the clients by lot: no update has anything to do with the one that
the same client sent before.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from fedleak.core import Params, Task, rng_for
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.games.traces.record import public_only, record
from fedleak.plan.plan import FederationPlan, PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.prepare import Prepared, prepare
from fedleak.trace.truth import Truth

__all__ = ["write_clients"]

DATA = MnistClients(source="digits", clients=6, examples=30, auxiliary=400)
ARCHITECTURE = StridedCnn(channels=(4, 8), strides=(2, 1), activation="elu")
PLAN = FederationPlan(rounds=3, fraction=1.0, batch=10, lr=0.05)
SIGNATURE = Signature(Task.CLASSIFY, (1, 8, 8), 10)


def write_clients(folder: Path, seed: int, *, leak: bool) -> Path:
    """Record the federation of a seed, its updates assigned to their senders or to random clients."""
    prepared, clients, start, rounds = _trained(seed)
    Truth(
        users=tuple(share.user.id for share in prepared.shares),
        client_user={client.id: client.user for client in clients},
        attributes={share.user.id: share.user.attributes for share in prepared.shares},
    ).save(folder / "truth")
    public_only(prepared).save(folder / "prior")
    if not leak:
        rounds = [
            replace(
                done,
                clients=done.clients[rng_for(seed, "contract clients", done.number).permutation(len(clients))],
            )
            for done in rounds
        ]
    return record(folder, f"clients-{seed}-{leak}", ARCHITECTURE, SIGNATURE, PLAN, clients, start, rounds)


@cache
def _trained(seed: int) -> tuple[Prepared, tuple[Client, ...], Params, list[Round]]:
    """Train once for all attacks, with and without a leak."""
    prepared = prepare(DATA, PopulationPlan(prior="none"), seed)
    clients = make_clients(prepared.shares, seed)
    model = ARCHITECTURE.build(SIGNATURE)
    return prepared, clients, initial(model, seed), list(train(model, clients, PLAN, (), None, seed))
