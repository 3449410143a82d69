"""The clients whose users hold a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedleak.core import UserId
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["holders"]


def holders(trace: Trace, truth: Truth) -> list[tuple[str, UserId, tuple[str, ...]]]:
    """Client, user and secrets, by client; one client for each user.

    In a recorded run, a client that was restarted may have two names. Asked about under both, its user would count
    twice, so the question is about the one that took part most.
    """
    names = trace.header.clients
    times = np.bincount(np.asarray(trace.client, dtype=np.int64), minlength=len(names))
    often = dict(zip(names, times.tolist(), strict=True))
    best: dict[UserId, str] = {}
    for client in sorted(names):
        user = truth.client_user[client]
        if truth.secrets.get(user):
            best[user] = max(best.get(user, client), client, key=often.__getitem__)
    return sorted((client, user, truth.secrets[user]) for user, client in best.items())
