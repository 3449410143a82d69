"""Permutations of users for the test behind a verdict: the same ones for every attack on a question and in every seed.

Attacks on one question are compared by the largest of their scores, so all of them must be scored under the same
permutations. Predictions about one user go together in all runs, so a user must also get the same new identity in
every seed: independent permutations would average out what real runs share.

All permutations are drawn, the identity included. They are a group, which makes the p-value valid for any number of
users; derangements are not, and a single hit by luck would be above every one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from fedleak.core import IntArray, rng_for
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.ranking import Weights

__all__ = ["Deal", "LEAST", "deals", "identities", "least_for_answers", "least_for_identities", "exchanged"]

Deal: TypeAlias = Callable[[slice], IntArray]
"""The true answers of one seed, permuted: some of the permutations -> (permutations, questions)."""

# A perfect attack must be shown: the true answers must be rarer among the permutations than 1 - level, and than the
# 2.5% above `chance_high`. Twice as many as the level asks for are enough of both, at 95%.
_AMPLE = 2
# Below this no verdict is given whatever the level: 4 users have 24 permutations, too few by the rule above.
# tests/score/test_false_positives.py simulates 2 to 40 users: where a verdict is given, noise is called a leak in at
# most 5% of audits.
LEAST = 5


def identities(names: Sequence[Sequence[Hashable]], times: int, seed: int) -> list[IntArray]:
    """Permutations of the users of each seed, (times, users): entry u is the user whose identity user u takes.

    Drawn over the users of all seeds. A seed that lacks some of them follows each permutation past the missing users
    (its first return to those present), which is again a uniform permutation, and the same wherever it can be.
    """
    pooled = sorted({name for each in names for name in each}, key=str)
    place = {name: i for i, name in enumerate(pooled)}
    drawn = rng_for(seed, "permutation").permuted(np.tile(np.arange(len(pooled)), (times, 1)), axis=1)
    found = []
    for each in names:
        mine = np.asarray([place[name] for name in each], dtype=np.int64)
        local = np.full(len(pooled), -1, dtype=np.int64)
        local[mine] = np.arange(len(mine))
        taken = drawn[:, mine]
        while (absent := local[taken] < 0).any():
            rows, columns = np.nonzero(absent)
            taken[rows, columns] = drawn[rows, taken[rows, columns]]
        found.append(local[taken])
    return found


def exchanged(played: Sequence[AttackResult], times: int) -> list[IntArray] | None:
    """Which prediction each scored question takes under each permutation, (times, questions), for each seed.

    Where every question of a grid is asked, users exchange their places on one side of it: the questions that are
    scored keep their answers, and take the predictions that were made for the other user. None where there is no grid.
    """
    names, grids = [], []
    for one in played:
        if one.answers is None or one.answers.cells is None or one.answers.scored is None:
            return None
        cells, scored = one.answers.cells, one.answers.scored
        for grid in np.unique(cells[:, 0]):
            here = cells[cells[:, 0] == grid]
            names.append([one.users[i] for i in np.unique(here[:, 2])])
        grids.append((cells, scored))
    orders = iter(identities(names, times, played[0].seed))
    found = []
    for cells, scored in grids:
        shape = tuple(int(extent) + 1 for extent in cells.max(axis=0))
        keys = np.ravel_multi_index(tuple(cells.T), shape)
        sorted_keys, question = np.sort(keys), np.argsort(keys)
        taken = np.empty((times, len(scored)), dtype=np.int64)
        for grid in np.unique(cells[:, 0]):
            users, order = np.unique(cells[cells[:, 0] == grid, 2]), next(orders)
            mine = np.flatnonzero(cells[scored, 0] == grid)
            _, fixed, user, number = cells[scored[mine]].T
            other = users[order[:, np.searchsorted(users, user)]]
            fixed, number, block = (np.broadcast_to(side, other.shape) for side in (fixed, number, grid))
            wanted = np.ravel_multi_index((block, fixed, other, number), shape)
            taken[:, mine] = question[np.searchsorted(sorted_keys, wanted)]
        found.append(taken)
    return found


def deals(played: Sequence[AttackResult], times: int, level: float) -> tuple[list[Deal], int]:
    """How to permute the true answers of yes/no questions or values in each seed, and the least users for a verdict.

    Every way permutes answers independently of the predictions and keeps their clusters; shuffling single answers
    would break these up and underestimate the variance of the null.

    - Every user has one answer (a property of users, not of updates): users swap their answers.
    - Every update of one round is compared with all of a later one: users swap the identities of later updates.
    - Otherwise each user has a run of yes questions and one of no questions, and the runs are permuted along the
      questions, ordered by user. Runs of different lengths are no group, but in simulation this errs on the safe side:
      where users differ from each other, noise is called a leak in less than 1% of audits.
    """
    for way in (_swapped_answers, _swapped_updates):
        found = way(played, times, level)
        if found is not None:
            return found
    return _permuted_runs(played, times), least_for_identities(level)


def least_for_identities(level: float) -> int:
    """The users that are needed for as many permutations as the level asks for."""
    least = LEAST
    while math.factorial(least) * (1 - level) < _AMPLE:
        least += 1
    return least


def least_for_answers(counts: Sequence[int], level: float) -> int:
    """The users that are needed if users swap answers, of which each is given by so many: as many in proportion.

    >>> least_for_answers([2, 10], 0.95), least_for_answers([1, 9], 0.95), least_for_answers([2, 2], 0.95)
    (12, 20, 8)
    """
    total = sum(counts)
    for users in range(total, 1000 * total):
        shares = [count * users // total for count in counts]
        shares[int(np.argmax(counts))] += users - sum(shares)
        ways = math.factorial(users) // math.prod(math.factorial(share) for share in shares)
        if ways * (1 - level) >= _AMPLE:
            return max(LEAST, users)
    return LEAST


def _swapped_answers(played: Sequence[AttackResult], times: int, level: float) -> tuple[list[Deal], int] | None:
    names, parts = [], []
    for one in played:
        present, first, user = np.unique(one.about[:, 0], return_index=True, return_inverse=True)
        answer = one.right[first]
        if not (answer[user] == one.right).all():
            return None
        names.append([one.users[i] for i in present])
        parts.append((answer, user))
    orders = identities(names, times, played[0].seed)
    counts = max((np.unique(answer, return_counts=True)[1] for answer, _ in parts), key=sum)
    ways: list[Deal] = [partial(_answer_of, *part, order) for part, order in zip(parts, orders, strict=True)]
    return ways, least_for_answers(counts.tolist(), level)


def _answer_of(answer: IntArray, user: IntArray, order: IntArray, rows: slice) -> IntArray:
    return np.asarray(answer[order[rows]][:, user])


def _swapped_updates(played: Sequence[AttackResult], times: int, level: float) -> tuple[list[Deal], int] | None:
    for one in played:
        if one.gallery is None or not np.array_equal(one.about[:, 0] == one.about[:, -1], one.right == 1):
            return None
    present = [np.unique(one.about) for one in played]
    names = [[one.users[i] for i in there] for one, there in zip(played, present, strict=True)]
    orders = identities(names, times, played[0].seed)
    places = [np.searchsorted(there, one.about) for one, there in zip(played, present, strict=True)]
    return [partial(_same_now, *pair) for pair in zip(places, orders, strict=True)], least_for_identities(level)


def _same_now(about: IntArray, order: IntArray, rows: slice) -> IntArray:
    return np.asarray(order[rows][:, about[:, 1]] == about[:, 0], dtype=np.int64)


def _permuted_runs(played: Sequence[AttackResult], times: int) -> list[Deal]:
    numbers, parts = dict[tuple[str, int], int](), []
    for one in played:
        anchor = one.about[:, 0]
        order = np.lexsort((one.right, anchor))
        right, user = one.right[order], anchor[order]
        starts = np.flatnonzero(np.append(True, (np.diff(right) != 0) | (np.diff(user) != 0)))
        keys = [(one.users[user[start]], int(right[start])) for start in starts]
        places = np.asarray([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        parts.append((order, right[starts], np.diff(np.append(starts, len(right))), places))
    # The runs of one user come in the same places in every seed.
    drawn = rng_for(played[0].seed, "permutation").random((times, len(numbers)))
    return [partial(_in_runs, *part, drawn) for part in parts]


def _in_runs(
    order: IntArray, answers: IntArray, sizes: IntArray, places: IntArray, drawn: Weights, rows: slice
) -> IntArray:
    placed = np.argsort(drawn[rows][:, places], axis=1)
    dealt = np.empty((len(placed), len(order)), dtype=np.int64)
    dealt[:, order] = np.repeat(answers[placed].ravel(), sizes[placed].ravel()).reshape(len(placed), -1)
    return dealt
