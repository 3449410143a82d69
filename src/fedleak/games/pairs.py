"""Draw pairs to ask about, and the pairs among them that are scored, so that the questions carry no answers.

An attack must learn nothing from which pairs are asked. Half of the scored pairs match, and no set of questions of
which half match can be shown to the attack without a loss. Consider a client, by an adversary that can link its
updates. Each question about it must be right with probability one half, whatever else is asked. So it may be asked
together with two users, one of whom is right: a choice between two, where the adversary had one between all. Or it is
asked with one user, who is right or not by a coin: then two updates that are asked with the same user come from one
client, which tells an adversary that cannot link updates that they do.

So the attack answers more pairs than are scored. It is asked about a full grid: every drawn anonymous update with every
drawn update of the other side, both drawn without regard to the answers. Only a selection from the grid is scored, half
of it matching, and the attack never sees which. In the selection every update is in as many matching pairs as in
others: an attack gains nothing by preferring some updates to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.metrics.shuffles import LEAST

__all__ = ["Drawn", "between_sides", "behind_clients", "between_rounds"]

_EACH = 8  # anonymous updates per user, on average: more of them, before there are more of the other side
_FIRSTS = 4  # updates of the other side per user, at most

_Grid: TypeAlias = tuple[IntArray, IntArray, npt.NDArray[np.bool_], list[tuple[int, int]], IntArray]
"""Rows, columns, which of the cells are right, the scored cells, and (cells, 3) what of each cell can be exchanged."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The pairs that are asked about, in random order, and which of them are scored."""

    first: IntArray
    second: IntArray
    right: IntArray  # 1 where both are of one user, otherwise 0
    scored: IntArray  # indices of these pairs, in increasing order: half of them are right
    # (pairs, 4): the grid; the place on one side; the user on the other, of whom every grid has equally many; and which
    # of that user's it is. Users may exchange identities on the second side.
    cells: IntArray


def between_sides(
    firsts: Sequence[IntArray], seconds: Sequence[IntArray], most: int, rng: np.random.Generator
) -> Drawn:
    """Pair prior data of users (`firsts`, by user) with anonymous updates (`seconds`, by user), at most `most` times.

    Each user has the same number of firsts, if there are enough. Seconds are drawn from those of all users together:
    with equally many of each, an attack could assign updates to users one to one. Where there are too many users for
    two updates of each, some users are drawn.
    """
    able = [user for user, pair in enumerate(zip(firsts, seconds, strict=True)) if all(map(len, pair))]
    users = rng.permutation(able)[: _at_most(most)].tolist()
    if len(users) < 2:
        return _shuffled([], rng)
    columns = np.concatenate([seconds[user] for user in users])
    sender = np.repeat(np.arange(len(users)), [len(seconds[user]) for user in users])
    each = max(1, most // (len(users) * min(len(columns), _EACH * len(users))))
    each = min(each, _FIRSTS, *(len(firsts[user]) for user in users))
    rows = np.concatenate([rng.permutation(firsts[user])[:each] for user in users])
    drawn = rng.permutation(len(columns))[: max(1, most // len(rows))]
    columns, sender = columns[drawn], sender[drawn]
    sent = [np.flatnonzero(sender == user).tolist() for user in range(len(users))]
    scored: list[tuple[int, int]] = []
    for turn in range(max(map(len, sent))):
        # One update of everyone who has that many, with its user and with another: in turn all others.
        here = [user for user in range(len(users)) if turn < len(sent[user])]
        if len(here) < 2:
            break
        step = 1 + turn % (len(here) - 1)
        for at, user in enumerate(here):
            for whose in (user, here[(at + step) % len(here)]):
                scored += [(each * whose + i, sent[user][turn]) for i in range(each)]
    right = np.repeat(np.arange(len(users)), each)[:, None] == sender[None, :]
    first, second = (side.ravel() for side in np.indices(right.shape))
    cells = np.stack([second, np.asarray(users)[first // each], first % each], axis=1)
    return _shuffled([(rows, columns, right, scored, cells)], rng)


def behind_clients(
    firsts: Sequence[IntArray], home: IntArray, seconds: Sequence[IntArray], most: int, rng: np.random.Generator
) -> Drawn:
    """Pair prior data of users (`firsts`, by user) with updates of the clients that hold users' data (`seconds`).

    `home` is the client of each user. Users and updates are drawn from those of all clients together. Users of one
    client share its updates and may resemble each other, so clients, not users, exchange their places for the test
    behind a verdict. For that, equally many users of every client are scored; of the numbers possible the one that
    scores the most users, but with enough clients for a verdict if there are.
    """
    able = [user for user, first in enumerate(firsts) if len(first) and len(seconds[home[user]])]
    clients = rng.permutation(np.unique(home[able]))[: _at_most(most)]
    among = rng.permutation([user for user in able if home[user] in clients])
    among = among[: max(2 * len(clients), most // max(1, 2 * len(clients)))]
    sizes = np.sort([np.count_nonzero(home[among] == client) for client in clients])[::-1]
    if len(clients) < 2 or sizes[1] < 1:
        return _shuffled([], rng)
    few = min(LEAST, int(np.count_nonzero(sizes)))
    numbers = [int(sizes[many - 1]) for many in range(few, len(sizes) + 1)]
    scored_users = max(numbers, key=lambda number: number * int((sizes >= number).sum()))
    kept = [client for client in clients.tolist() if np.count_nonzero(home[among] == client) >= scored_users]
    columns = np.concatenate([seconds[client] for client in clients])
    sender = np.repeat(clients, [len(seconds[client]) for client in clients])
    each = max(1, most // (len(among) * min(len(columns), _EACH * len(clients))))
    each = min(each, _FIRSTS, *(len(firsts[user]) for user in among))
    rows = np.concatenate([rng.permutation(firsts[user])[:each] for user in among])
    drawn = rng.permutation(len(columns))[: max(1, most // len(rows))]
    columns, sender = columns[drawn], sender[drawn]
    place = np.zeros(len(among), dtype=np.int64)  # of a user among those of the client
    for client in clients:
        mine = home[among] == client
        place[mine] = np.arange(np.count_nonzero(mine))
    chosen = {
        client: np.flatnonzero(np.repeat((home[among] == client) & (place < scored_users), each)) for client in kept
    }
    sent = {client: np.flatnonzero(sender == client).tolist() for client in kept}
    scored: list[tuple[int, int]] = []
    for turn in range(max(map(len, sent.values()))):
        here = [client for client in kept if turn < len(sent[client])]
        if len(here) < 2:
            break
        step = 1 + turn % (len(here) - 1)
        for at, client in enumerate(here):
            for whose in (client, here[(at + step) % len(here)]):
                scored += [(int(row), sent[client][turn]) for row in chosen[whose]]
    right = np.repeat(home[among], each)[:, None] == sender[None, :]
    first, second = (side.ravel() for side in np.indices(right.shape))
    user = first // each
    cells = np.stack([second, home[among][user], place[user] * each + first % each], axis=1)
    # Clients with too few users have no places to exchange: a grid of their own, in which nothing is scored.
    inside = np.repeat(np.isin(home[among], kept), each)
    number = np.cumsum(inside) - 1
    moved = [(int(number[row]), column) for row, column in scored]
    parts = [(inside, moved), (~inside, [])]
    return _shuffled(
        [(rows[part], columns, right[part], cut, cells[part[first]]) for part, cut in parts if part.any()], rng
    )


def between_rounds(updates: IntArray, user: IntArray, number: IntArray, most: int, rng: np.random.Generator) -> Drawn:
    """Pair anonymous updates with earlier ones; `user` and `number` (its round) are of each update.

    All updates of a later round are asked with some of any earlier rounds. A client sends one update per round, so
    rounds would reveal something about a pair: only updates of one later round are swapped in the scored ones.
    """
    kept = rng.permutation(np.unique(user))[: _at_most(most)]
    if len(kept) < 2:
        return _shuffled([], rng)
    among = np.flatnonzero(np.isin(user, kept))
    later = rng.permutation(np.unique(number[among])[1:]).tolist()
    typical = max(1, len(among) // (len(later) + 1))
    later = later[: max(1, most // (len(kept) * typical))]
    grids, left = [], most
    for turn, at in enumerate(later):
        columns = among[number[among] == at]
        budget = left // (len(later) - turn)
        earlier = rng.permutation(among[number[among] < at])
        rows = earlier[: min(_FIRSTS * len(kept), budget // len(columns))]
        left -= len(rows) * len(columns)
        right = user[rows][:, None] == user[columns][None, :]
        found = [
            (int(rng.choice(np.flatnonzero(right[:, column]))), int(column))
            for column in rng.permutation(np.flatnonzero(right.any(axis=0)))
        ]
        swapped = [(row, found[i - 1][1]) for i, (row, _) in enumerate(found)]
        first, second = (side.ravel() for side in np.indices(right.shape))
        cells = np.stack([first, user[columns][second], np.zeros_like(first)], axis=1)
        scored = [*found, *swapped] if len(found) > 1 else []
        grids.append((updates[rows], updates[columns], right, scored, cells))
    return _shuffled(grids, rng)


def _shuffled(grids: Sequence[_Grid], rng: np.random.Generator) -> Drawn:
    """All cells of the grids, in random order."""
    if not grids:
        none = np.zeros(0, dtype=np.int64)
        return Drawn(none, none, none, none, np.zeros((0, 4), dtype=np.int64))
    first = np.concatenate([np.repeat(rows, len(columns)) for rows, columns, *_ in grids])
    second = np.concatenate([np.tile(columns, len(rows)) for rows, columns, *_ in grids])
    right = np.concatenate([grid[2].ravel() for grid in grids]).astype(np.int64)
    cells = np.concatenate([np.column_stack([np.full(len(grid[4]), at), grid[4]]) for at, grid in enumerate(grids)])
    scored, before = np.zeros(len(first), dtype=np.bool_), 0
    for rows, columns, _, chosen, _ in grids:
        for row, column in chosen:
            scored[before + row * len(columns) + column] = True
        before += len(rows) * len(columns)
    order = rng.permutation(len(first))
    return Drawn(first[order], second[order], right[order], np.flatnonzero(scored[order]), cells[order])


def _at_most(pairs: int) -> int:
    """So many users that two updates of each can be asked with all of them."""
    return max(2, isqrt(pairs // 2))
