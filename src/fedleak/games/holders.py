"""The clients of users: which of them hold a secret, and which updates are theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedleak.core import IntArray, UserId
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["holders", "updates_by_client"]


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


def updates_by_client(trace: Trace) -> dict[str, IntArray]:
    """Client -> the rows of its updates, for the users' clients that sent one; shadow clients are no victims."""
    clients: IntArray = np.where(np.asarray(trace.shadow) < 0, np.asarray(trace.client), -1).astype(np.int64)
    return {
        trace.header.clients[client]: np.flatnonzero(clients == client)
        for client in dict.fromkeys(clients.tolist())
        if client >= 0
    }
