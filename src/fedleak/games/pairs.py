"""Draw pairs of which half match, so that the questions themselves do not reveal the answers.

An attack that sees only which pairs are in the questions must be at chance. It is not enough that every update is in as
many matching pairs as in others: an update whose matching partners are all of one user and whose others are of many
reveals its user. So pairs come in fours, from two users: (a, b) of one, (c, d) of the other, and swapped (a, d) and
(c, b). Exchanging b and d exchanges matching and other pairs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fedleak.core import IntArray

__all__ = ["Drawn", "between_sides", "between_rounds"]

Drawn: TypeAlias = tuple[IntArray, IntArray, IntArray]
"""First, second and 1 or 0 for every question, in random order."""


def between_sides(
    firsts: Sequence[IntArray], seconds: Sequence[IntArray], most: int, rng: np.random.Generator
) -> Drawn:
    """Pair prior data of users (`firsts`, by user) with anonymous updates (`seconds`, by user).

    Two users are paired once for all questions: then even an adversary that can link the updates of a client does not
    find one user paired with it more often than another. Of an odd number of users one is left out.
    """
    able = [user for user, pair in enumerate(zip(firsts, seconds, strict=True)) if all(map(len, pair))]
    order = rng.permutation(able)
    each = []
    for u, v in zip(order[::2], order[1::2], strict=False):
        known, sent = ([rng.permutation(side[user]) for user in (u, v)] for side in (firsts, seconds))
        rows, columns = (min(map(len, side)) for side in (known, sent))
        cells = rng.permutation(rows * columns)[: -(-most // 4)]
        each.append(
            [_four(known[0][i], sent[0][j], known[1][i], sent[1][j]) for i, j in (divmod(c, columns) for c in cells)]
        )
    # In turns, so that all users are in equally many questions.
    longest = max(map(len, each), default=0)
    turns = [fours[turn] for turn in range(longest) for fours in each if turn < len(fours)]
    return _shuffled(turns[: most // 4], rng)


def between_rounds(updates: IntArray, user: IntArray, number: IntArray, most: int, rng: np.random.Generator) -> Drawn:
    """Pair anonymous updates with earlier ones; `user` and `number` (its round) are of each update.

    A client sends one update per round, so rounds would reveal something about a pair: only updates of one round are
    swapped. An update is in one group of four only: two that share several partners would be known to be of one user.
    """
    free = np.ones(len(updates), dtype=np.bool_)
    count = np.zeros(int(user.max()) + 1 if len(user) else 0)
    fours = []

    def earlier(second: int) -> int | None:
        found = np.flatnonzero(free & (user == user[second]) & (number < number[second]))
        return int(rng.choice(found)) if len(found) else None

    # The last rounds first: they have the most earlier updates to choose from, and use up none of the first ones' own.
    for at in np.unique(number)[::-1]:
        waiting: list[tuple[int, int]] = []
        here = np.flatnonzero(number == at)
        for second in here[np.argsort(count[user[here]] + rng.random(len(here)))].tolist():
            first = earlier(second) if free[second] else None
            if first is not None:
                waiting.append((first, second))
        for (a, b), (c, d) in zip(waiting[::2], waiting[1::2], strict=False):
            free[[a, b, c, d]] = False
            count[user[[b, d]]] += 1
            fours.append(_four(*updates[[a, b, c, d]]))
    rng.shuffle(fours)
    return _shuffled(fours[: most // 4], rng)


def _four(a: int, b: int, c: int, d: int) -> list[tuple[int, int, int]]:
    return [(a, b, 1), (c, d, 1), (a, d, 0), (c, b, 0)]


def _shuffled(fours: Sequence[list[tuple[int, int, int]]], rng: np.random.Generator) -> Drawn:
    table = np.asarray([question for four in fours for question in four], dtype=np.int64).reshape(-1, 3)
    table = table[rng.permutation(len(table))]
    return table[:, 0], table[:, 1], table[:, 2]
