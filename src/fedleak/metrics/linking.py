"""The `link` game: which of these anonymous updates come from the same client?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, rng_for
from fedleak.errors import AttackError
from fedleak.metrics.attack_result import AttackResult, Measured, measured, pooled
from fedleak.metrics.identification import by_tally
from fedleak.metrics.interval import resampled
from fedleak.metrics.permutation import Tally, derangements, top
from fedleak.metrics.shuffles import identities, least_for_identities

__all__ = ["found_again", "matched", "asked", "as_searches"]

Table = npt.NDArray[np.float64]


def asked(gap: int, played: Sequence[AttackResult]) -> bool | str:
    """Whether every seed has questions about updates this many rounds apart; why not, if nobody can be found again."""
    if any(one.gallery is None or gap not in one.gallery[:, 0] for one in played):
        return False
    for one in played:
        users = len(np.unique(one.about[_there(one, gap), 0]))
        if users < 2:
            return (
                f"seed {one.seed}: {users} client(s) took part again {gap} round(s) after a compared round, and at "
                "least two are needed; select more clients in each round (fraction), or compare more rounds (starts)"
            )
    return True


def found_again(gap: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the updates whose client has the highest prediction among all updates `gap` rounds later.

    Chance is 1 / (number of candidates). Updates of clients that did not return are not counted:
    there is nothing to find.
    """
    searches = [as_searches(one, gap) for one in played]
    return by_tally(
        [one for one, _ in searches],
        f"gap{gap}",
        lambda one: next(tally for search, tally in searches if search is one),
        level,
        permutations,
    )


def _there(one: AttackResult, gap: int) -> npt.NDArray[np.bool_]:
    """The questions of searches over this gap that have something to find."""
    assert one.gallery is not None
    number = one.gallery[:, 1]
    return np.asarray((one.gallery[:, 0] == gap) & np.isin(number, number[one.right == 1]))


def as_searches(one: AttackResult, gap: int) -> tuple[AttackResult, Tally]:
    """Searches as questions with a prediction per user; users without an update in the later round are excluded."""
    rows = np.flatnonzero(_there(one, gap))
    if not len(rows):
        raise AttackError(
            f"game 'link', seed {one.seed}: there are no questions about rounds {gap} apart; train more rounds"
        )
    assert one.gallery is not None
    _, search = np.unique(one.gallery[rows, 1], return_inverse=True)
    claims = np.full((int(search.max()) + 1, len(one.users)), -np.inf, dtype=np.float32)
    claims[search, one.about[rows, 1]] = one.claims[rows, 0]
    right = np.empty(len(claims), dtype=np.int64)
    right[search] = one.about[rows, 0]
    found = top(claims, right, 1)
    sizes = np.bincount(search)
    as_users = replace(one, claims=claims, right=right, options=one.users, who=right, gallery=None)
    # The client searched for is always among the updates, another one only sometimes: its hits count only there.
    there = np.zeros_like(found.table)
    np.add.at(there.T, right, np.isfinite(claims))
    available = there / np.maximum(found.weights, 1)
    table = found.table / np.where(available > 0, available, 1)
    return as_users, replace(found, table=table, available=available, blind=float(np.mean(1 / sizes)))


def matched(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """How often a prediction has the right sign; pairs of one client and of two weigh the same.

    Every attack fixes its own threshold in advance, on auxiliary data; so guessing is right half of the time.
    """
    users, who = pooled(played)
    tables = [_counts(one, about, users) for one, about in zip(played, who, strict=True)]

    def each(weights: Table) -> Table:
        # A pair of different users counts only if both are drawn; a pair of one user needs just that user.
        rows = []
        for said, every in tables:
            right = _share((weights * said.diagonal()).sum(1), (weights * every.diagonal()).sum(1))
            wrong = _share(_between(weights, said), _between(weights, every))
            rows.append((right + 1 - wrong) / 2)
        return np.stack(rows)

    rng = rng_for(played[0].seed, "interval", "matched")
    by_seed = each(np.ones((1, users)))[:, 0]
    present = [np.flatnonzero(every.diagonal()) for _, every in tables]
    called = {
        int(number): one.users[i]
        for one, about in zip(played, who, strict=True)
        for i, number in zip(one.about.flat, about.flat, strict=True)
    }
    names = [[called[i] for i in there.tolist()] for there in present]
    shown = [
        (said[np.ix_(there, there)], every[np.ix_(there, there)])
        for (said, every), there in zip(tables, present, strict=True)
    ]
    return measured(
        played,
        float(by_seed.mean()),
        resampled(lambda weights: each(weights).mean(axis=0), np.zeros(users, dtype=np.int64), users * users, rng),
        level=level,
        blind=0.5,
        nulls=[
            _under(*both, derangements(len(some), permutations, rng_for(played[0].seed, "null", *some)))
            for both, some in zip(shown, names, strict=True)
        ],
        permuted=[
            _under(*both, order)
            for both, order in zip(shown, identities(names, permutations, played[0].seed), strict=True)
        ],
        by_seed=by_seed.tolist(),
        least=least_for_identities(level),
        users=users,
        options=1,
        exact=True,
    )


def _counts(one: AttackResult, about: npt.NDArray[np.int64], users: int) -> tuple[Table, Table]:
    """By user of the earlier and the later update: the number of pairs predicted as one client, and of all pairs."""
    said, every = np.zeros((users, users)), np.zeros((users, users))
    np.add.at(said, (about[:, 0], about[:, 1]), one.claims[:, 0] > 0)
    np.add.at(every, (about[:, 0], about[:, 1]), 1)
    return said, every


def _between(weights: Table, table: Table) -> Table:
    """The weighted sum over pairs of different users."""
    apart = table - np.diag(table.diagonal())
    return np.asarray(np.einsum("ru,ru->r", weights @ apart, weights))


def _share(part: Table, whole: Table) -> Table:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def _under(said: Table, every: Table, orders: IntArray) -> Table:
    """The same with every later update assigned to another user, once per permutation (permutations, users)."""
    everyone = np.arange(len(said))
    mine, all_mine = (table[everyone, orders].sum(axis=1) for table in (said, every))
    rest, all_rest = said.sum() - mine, every.sum() - all_mine
    return np.asarray((mine / np.maximum(all_mine, 1) + 1 - rest / np.maximum(all_rest, 1)) / 2)
