"""The contract trace of attacks on membership: a small federation that memorises noisy labels.

With a leak, the truth names the records that the clients trained on. Without, the clients trained on other records of
the same users, or on records of strangers, where style is not to be found either: what an attack then finds is not
there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from fedleak.core import Params, Task, UserId, rng_for
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.games.traces.record import record
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share, User
from fedleak.trace.members import MemberRecords
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth

__all__ = ["write_members"]

USERS, OUTSIDERS, PUBLIC, EACH, INPUTS, CLASSES = 10, 10, 24, 16, 20, 3
ARCHITECTURE = Mlp(hidden=(24,))
PLAN = FederationPlan(rounds=16, fraction=0.5, epochs=4, batch=8, lr=0.2)
SIGNATURE = Signature(Task.CLASSIFY, (INPUTS,), CLASSES)


def write_members(
    folder: Path, seed: int, *, leak: bool, users: int = USERS, instead: Literal["others", "strangers"] = "others"
) -> Path:
    """Record the federation of a seed; without a leak it trained on records that nobody is asked about `instead`."""
    shares, held, public, clients, start, rounds = _trained(seed, None if leak else instead, users)
    inside = shares[:users]
    Truth(
        users=tuple(share.user.id for share in inside),
        client_user={client.id: client.user for client in clients},
        attributes={},
        members=MemberRecords(
            used=_by_user(shares, [share.private for share in shares]), held_out=_by_user(shares, held)
        ),
    ).save(folder / "truth")
    Prior(
        candidates=(),
        examples=(),
        task=Task.CLASSIFY,
        outputs=CLASSES,
        background=Background(examples=public, shows={}),
    ).save(folder / "prior")
    return record(
        folder, f"members-{seed}-{leak}-{users}-{instead}", ARCHITECTURE, SIGNATURE, PLAN, clients, start, rounds
    )


def _by_user(shares: list[Share], data: list[Examples]) -> Prior:
    return Prior(
        candidates=tuple(share.user.id for share in shares), examples=tuple(data), task=Task.CLASSIFY, outputs=CLASSES
    )


@cache
def _trained(
    seed: int, instead: Literal["others", "strangers"] | None, users: int
) -> tuple[list[Share], list[Examples], Examples, tuple[Client, ...], Params, list[Round]]:
    """Train once for all attacks."""
    rng = rng_for(seed, "contract members", users)
    teacher = rng.normal(size=(INPUTS, CLASSES))

    def draw(mean: np.ndarray, count: int, owner: int) -> Examples:
        x = (mean + rng.normal(size=(count, INPUTS))).astype(np.float32)
        y = (x @ teacher).argmax(axis=1)
        noisy = rng.random(count) < 0.5  # what cannot be learnt has to be memorised
        y = np.where(noisy, rng.integers(CLASSES, size=count), y).astype(np.int64)
        return Examples(x=x, y=y, owner=np.full(count, owner))

    shares, held, trained = [], [], []
    for number in range(users + OUTSIDERS):
        mean, stranger = 0.5 * rng.normal(size=INPUTS), 0.5 * rng.normal(size=INPUTS)
        used, out, other = (draw(mean, EACH, number) for _ in range(3))
        strange = draw(stranger, EACH, number)
        shares.append(Share(User(UserId(f"user-{number:02}"), used), used.take([]), used))
        held.append(out)
        trained.append({None: used, "others": other, "strangers": strange}[instead])
    public = Examples.concat(draw(0.5 * rng.normal(size=INPUTS), EACH, i) for i in range(PUBLIC))
    dealt = [Share(share.user, share.prior, data) for share, data in zip(shares[:users], trained, strict=False)]
    clients = make_clients(dealt, seed)
    model = ARCHITECTURE.build(SIGNATURE)
    return shares, held, public, clients, initial(model, seed), list(train(model, clients, PLAN, (), None, seed))
