"""The contract trace of attacks on records: a small federation of users who each hold a PIN.

With a leak, the truth names the PINs that the clients trained on. Without, it names others: what an attack then finds
is not there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from fedleak.core import Params, Task, UserId, rng_for
from fedleak.federation.federation import Client, Round, initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.games.traces.record import record
from fedleak.plan.plan import FederationPlan
from fedleak.population.datasets.clients_text import windows
from fedleak.population.population import Examples, Records, Share, User
from fedleak.population.secret_formats import parse
from fedleak.population.secret_records import draw_secrets
from fedleak.trace.prior import Prior
from fedleak.trace.truth import Truth

__all__ = ["write_secrets"]

HOLDERS, WINDOW = 6, 20
RECORDS = Records(form="pin {d4}", characters=("<pad>", "<unknown>", "\n", " ", *"abinp", *"0123456789"))
ARCHITECTURE = CharLm(embedding=8, hidden=32)
PLAN = FederationPlan(rounds=120, fraction=1 / 3, batch=8, lr=0.01, optimizer="adam", clip=1.0)
SIGNATURE = Signature(Task.NEXT_TOKEN, (WINDOW,), len(RECORDS.characters))


def write_secrets(folder: Path, seed: int, *, leak: bool, holders: int = HOLDERS, inject: bool = False) -> Path:
    """Record the federation of a seed, with a matching truth or a different one.

    With `inject` an adversary has placed a watermark of its own in everybody's text beforehand.
    """
    users, marks, clients, start, rounds = _trained(seed, holders, inject)
    Truth(
        users=tuple(user.id for user in users),
        client_user={client.id: client.user for client in clients},
        attributes={},
        secrets={user.id: user.secrets if leak else user.decoys for user in users},
    ).save(folder / "truth")
    Prior(
        candidates=(),
        examples=(),
        task=Task.NEXT_TOKEN,
        outputs=SIGNATURE.outputs,
        records=RECORDS,
        injected={client.id: marks[client.user] for client in clients if client.user in marks},
    ).save(folder / "prior")
    return record(
        folder,
        f"secrets-{seed}-{leak}{'-injected' * inject}",
        ARCHITECTURE,
        SIGNATURE,
        PLAN,
        clients,
        start,
        rounds,
        ({"power": "inject"},) if inject else (),
    )


@cache
def _trained(
    seed: int, holders: int, inject: bool
) -> tuple[list[User], dict[UserId, str], tuple[Client, ...], Params, list[Round]]:
    """Train once for all attacks, with and without a leak."""
    rng = rng_for(seed, "contract secrets")
    drawn = draw_secrets(parse(RECORDS.form), 2 * holders, rng)
    users, marks = [], {}
    for number in range(holders):
        chatter = ["".join(rng.choice(list("ab "), 10)) for _ in range(12)]
        name = UserId(f"user-{number}")
        lines = rng.permutation([*chatter, *[drawn[number]] * 6])
        if inject:
            own = rng_for(seed, "contract watermark", number)
            marks[name] = "".join(own.choice(list("abinp0123456789"), 10))
            lines = own.permutation([*lines, *[marks[name]] * 6])
        text = Examples(x=windows("\n".join(["", *lines, ""]), RECORDS.characters, WINDOW))
        users.append(User(name, text, secrets=(drawn[number],), decoys=(drawn[holders + number],)))
    nothing = np.zeros(0, dtype=np.int64)
    clients = make_clients([Share(user, user.examples.take(nothing), user.examples) for user in users], seed)
    model = ARCHITECTURE.build(SIGNATURE)
    return users, marks, clients, initial(model, seed), list(train(model, clients, PLAN, (), None, seed))
