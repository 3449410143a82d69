"""The contract trace of attacks on words: a small federation of writers, each with words of their own.

With a leak, the truth names the texts that the clients trained on. Without, it names those of people who took no part.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fedleak.core import Params, Task, UserId, rng_for
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.recurrent import WordLm
from fedleak.games.traces.record import record
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share, User
from fedleak.trace.evidence import Evidence
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth

__all__ = ["write_words"]

WRITERS, VOCABULARY, WORDS, LENGTH = 8, 60, 15, 6
ARCHITECTURE = WordLm(embedding=8, hidden=12)
PLAN = FederationPlan(rounds=6, fraction=0.5, batch=4, lr=0.5)
SIGNATURE = Signature(Task.NEXT_TOKEN, (LENGTH,), VOCABULARY)


def write_words(folder: Path, seed: int, *, leak: bool) -> Path:
    """Record the federation of a seed, with the writers' own texts as the truth or those of others."""
    users, clients, start, rounds = _trained(seed)
    mine, others = users[:WRITERS], users[WRITERS:]
    shown = mine if leak else [replace(user, examples=other.examples) for user, other in zip(mine, others, strict=True)]
    held = Prior(
        candidates=tuple(user.id for user in shown),
        examples=tuple(user.examples for user in shown),
        task=Task.NEXT_TOKEN,
        outputs=VOCABULARY,
    )
    public = Examples(x=np.ones((1, LENGTH), dtype=np.int64))
    nobody = replace(held, candidates=(), examples=(), background=Background(examples=public, shows={}))
    Truth(
        users=tuple(user.id for user in mine),
        client_user={client.id: client.user for client in clients},
        attributes={},
        evidence=Evidence(held=held, bystanders=nobody),
    ).save(folder / "truth")
    Prior(candidates=(), examples=(), task=Task.NEXT_TOKEN, outputs=VOCABULARY).save(folder / "prior")
    return record(folder, f"words-{seed}-{leak}", ARCHITECTURE, SIGNATURE, PLAN, clients, start, rounds)


@cache
def _trained(seed: int) -> tuple[list[User], tuple[Client, ...], Params, list[Round]]:
    """Train once for all attacks, with and without a leak."""
    rng = rng_for(seed, "contract words")
    users = []
    for number in range(2 * WRITERS):
        words = 2 + rng.permutation(VOCABULARY - 2)[:WORDS]
        users.append(User(UserId(f"writer-{number}"), Examples(x=rng.choice(words, (12, LENGTH)))))
    nothing = np.zeros(0, dtype=np.int64)
    shares = [Share(user, user.examples.take(nothing), user.examples) for user in users[:WRITERS]]
    clients = make_clients(shares, seed)
    model = ARCHITECTURE.build(SIGNATURE)
    return users, clients, initial(model, seed), list(train(model, clients, PLAN, (), None, seed))
