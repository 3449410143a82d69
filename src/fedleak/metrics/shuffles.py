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

__all__ = ["Deal", "LEAST", "deals", "identities", "least_for_answers", "least_for_identities", "spread_over"]

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


def spread_over(played: Sequence[AttackResult]) -> float:
    """By what factor the permutations of single seeds must be spread, so that their mean varies as the real one does.

    Users of pairs are coupled anew in every seed, and couples exchange updates independently of each other. But what an
    attack wrongly believes of a user is in all seeds. It is taken to be the same in each, which is the worst case; with
    independent exchanges, noise was called a leak in 10% of simulated audits with two seeds.
    """
    coupled = [_couples(one) for one in played]
    if len(played) < 2 or None in coupled or all(each == coupled[0] for each in coupled):
        return 1.0
    return math.sqrt(len(played))


def deals(played: Sequence[AttackResult], times: int, level: float) -> tuple[list[Deal], int]:
    """How to permute the true answers of yes/no questions or values in each seed, and the least users for a verdict.

    Every way permutes answers independently of the predictions and keeps their clusters; shuffling single answers
    would break these up and underestimate the variance of the null.

    - Every user has one answer (a property of users, not of updates): users swap their answers.
    - Every update of one round is compared with all of a later one: users swap the identities of later updates.
    - Users come in couples, who are compared with themselves and with each other (`fedleak.games.pairs`): a couple
      exchanges the identities of its updates on one side, which exchanges yes and no.
    - Otherwise each user has a run of yes questions and one of no questions, and the runs are permuted along the
      questions, ordered by user. Runs of different lengths are no group, but in simulation this errs on the safe side:
      where users differ from each other, noise is called a leak in less than 1% of audits.
    """
    for way in (_swapped_answers, _swapped_updates, _exchanged_couples):
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
    (12, 40, 8)
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


def _exchanged_couples(played: Sequence[AttackResult], times: int, level: float) -> tuple[list[Deal], int] | None:
    numbers, parts = dict[tuple[str, str], int](), []
    for one in played:
        coupled = _couples(one)
        if coupled is None:
            return None
        number = [numbers.setdefault(coupled[one.users[i]], len(numbers)) for i in one.about[:, 0]]
        parts.append((one.right, np.asarray(number, dtype=np.int64)))
    flips = rng_for(played[0].seed, "permutation").integers(2, size=(times, len(numbers)))
    ways: list[Deal] = [partial(_exchanged, *part, flips) for part in parts]
    return ways, max(LEAST, 2 * math.ceil(math.log2(_AMPLE / (1 - level))))


def _couples(one: AttackResult) -> dict[str, tuple[str, str]] | None:
    """The couple of each user; None where users are not in couples, or every user has one answer."""
    first, second = one.about[:, 0], one.about[:, -1]
    apart = first != second
    if one.gallery is not None or not apart.any() or not np.array_equal(apart, one.right == 0):
        return None
    partner = np.full(len(one.users), -1, dtype=np.int64)
    partner[first[apart]] = second[apart]
    there = np.unique(one.about)
    # Everyone is in one couple, and that is mutual.
    if (partner[there] < 0).any() or not (
        np.array_equal(partner[first[apart]], second[apart]) and np.array_equal(partner[partner[there]], there)
    ):
        return None
    names = [(one.users[i], one.users[partner[i]]) for i in there]
    return {a: (min(a, b), max(a, b)) for a, b in names}


def _exchanged(right: IntArray, couple: IntArray, flips: IntArray, rows: slice) -> IntArray:
    return np.asarray(right ^ flips[rows][:, couple])


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
