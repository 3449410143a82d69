"""The `extract` game: rankings of records, one for each client.

Two things are distinguished. A secret is *extracted* if it is predicted for any client: the model has memorised it. It
is *attributed* if it ranks higher for its own client than for any other. `top1`, `top5`, ... need both (Yuan et al.,
2021, section V-A), and `distance1`, `distance5`, ... measure how near the nearest of the first k records is. Chance
gives every client the ranking of another: an attack that extracts everything and attributes nothing is then at chance,
whatever the number of records.

Tables have a row for every client that was asked about, and a column for every user that is scored: all of them, or the
victims of an adversary that injected a record into some clients' data. `own` is the row of each column's own client.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, rng_for
from fedleak.lazy import stats
from fedleak.metrics.attack_result import AttackResult, Measured, Predictions, measured, pooled
from fedleak.metrics.interval import resampled_users
from fedleak.metrics.permutation import derangements
from fedleak.metrics.ranking import Weights
from fedleak.metrics.shuffles import identities, least_for_identities
from fedleak.results.detail import PerRecord

__all__ = [
    "PLACES",
    "own_rows",
    "top",
    "distance",
    "extracted",
    "attributed",
    "any_found",
    "near",
    "edit_distances",
    "tabled",
]

PLACES = (1, 5, 10, 20, 50)
_UNGUESSABLE = 1e-5  # a record that a blind guess hits more rarely than this is known from the model


def top(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the users whose secret is among the first k records predicted for their own client.

    Among eight users, one of eight permutations keeps a given pair, so one extracted secret of nine digits could never
    be shown. But nobody guesses it: where a blind guess is that unlikely, and no secret was predicted for another
    client, the test is the exact binomial one of blind guesses. Otherwise the clients' lists are permuted, because an
    attack that extracts secrets and does not know whose they are hits some of them by luck.
    """
    tables = [(places(one) < k).astype(np.float64) for one in played]
    guess = [min(1.0, k / one.choices) for one in played]
    hits = [_own(one, table) for one, table in zip(played, tables, strict=True)]
    astray = any((table.sum() > hit.sum()) for table, hit in zip(tables, hits, strict=True))
    exact_p = _blind_p(played, hits, guess)
    return tabled(
        played,
        f"top{k}",
        tables,
        [np.ones(len(one.right)) for one in played],
        float(np.mean(guess)),
        level,
        permutations,
        exact_p=exact_p if sum(guess) < _UNGUESSABLE and not astray else None,
    )


def distance(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """The mean smallest edit distance between a user's secret and the first k records for their client.

    Lower values leak more (Yuan et al., 2021, Tables II, IV, VI). Chance is the distance to another
    client's ranking: how near luck comes depends on how varied the records of a ranking are, and those are as varied.
    """
    tables = [_nearest(one, k) for one in played]
    weights = [np.ones(len(one.right)) for one in played]
    return tabled(played, f"distance{k}", tables, weights, 0.0, level, permutations, lower_leaks=True)


def extracted(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the users whose secret is predicted for any client.

    Permuting the rankings changes nothing here; chance is guessing as many different records at random.
    """
    found = [np.isfinite(places(one).min(axis=0)) for one in played]
    guesses = [len(np.unique(_lists(one).reshape(-1, one.claims.shape[-1]), axis=0)) for one in played]
    guess = [min(1.0, n / one.choices) for n, one in zip(guesses, played, strict=True)]
    return tabled(
        played,
        "extracted",
        [
            np.broadcast_to(row.astype(np.float64), (len(_lists(one)), len(row)))
            for one, row in zip(played, found, strict=True)
        ],
        [np.ones(len(row)) for row in found],
        float(np.mean(guess)),
        level,
        permutations,
        exact=True,
        exact_p=_blind_p(played, [row.astype(np.float64) for row in found], guess),
    )


def _blind_p(played: Sequence[AttackResult], hits: Sequence[Weights], guess: Sequence[float]) -> float:
    """How likely blind guesses find as many users' secrets; `guess` is the chance of one secret in each seed.

    Secrets are drawn independently of each other, so this is binomial. A user may have one secret in all seeds: they
    count once, with the chances of all seeds together.
    """
    users, who = pooled(played)
    found = np.zeros(users)
    for about, row in zip(who, hits, strict=True):
        np.maximum.at(found, about[:, 0], row)
    return float(stats.binom.sf(found.sum() - 1, users, min(1.0, sum(guess))))


def attributed(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the extracted secrets that are ranked higher for their own client than for any other.

    Clients with the same rank are equally good guesses.
    """
    tables, weights = [], []
    for one in played:
        place = places(one)
        best = place.min(axis=0)
        first = (place == best) & np.isfinite(best)
        tables.append(first / np.maximum(first.sum(axis=0), 1))
        weights.append(np.isfinite(best).astype(np.float64))
    blind = float(np.mean([1 / len(_lists(one)) for one in played]))
    return tabled(played, "attributed", tables, weights, blind, level, permutations)


def any_found(played: Sequence[AttackResult]) -> bool:
    """Whether any secret was extracted."""
    return any(np.isfinite(places(one)).any() for one in played)


def _lists(one: AttackResult) -> Predictions:
    """The records predicted for every client, whether it is scored or not."""
    return one.claims if one.asked is None else one.asked


def own_rows(one: AttackResult) -> IntArray:
    """The row of each scored user's own client."""
    if one.answers is None or one.answers.scored is None:
        return np.arange(len(one.right))
    return one.answers.scored


def _own(one: AttackResult, table: Weights) -> Weights:
    """The values of each scored user's own client."""
    return np.asarray(table[own_rows(one), np.arange(table.shape[1])])


def places(one: AttackResult) -> Weights:
    """The rank of each user's secret (column) in the list of each client (row), from 0; infinity: absent."""
    lists = _lists(one)
    found = np.full((len(lists), len(one.right)), np.inf)
    for column, secret in enumerate(one.right):
        same = (lists == secret).all(axis=2)
        found[:, column] = np.where(same.any(axis=1), same.argmax(axis=1), np.inf)
    return found


def tabled(
    played: Sequence[AttackResult],
    name: str,
    tables: Sequence[npt.NDArray[np.float64]],
    weights: Sequence[npt.NDArray[np.float64]],
    blind: float,
    level: float,
    permutations: int,
    *,
    exact: bool = False,
    exact_p: float | None = None,
    lower_leaks: bool = False,
) -> Measured:
    """Build a metric from the scores of each question's predictions (row) for each user (column).

    Scores are shares, or with `lower_leaks` distances. `exact`: permutations change nothing, and `blind` is chance.
    """
    users, who = pooled(played)
    sums, total = np.zeros(users), np.zeros(users)
    names = [_numbered(one) for one in played]
    orders = identities(names, permutations, played[0].seed)
    nulls, permuted, by_seed = [], [], []
    for one, about, table, weight, some, order in zip(played, who, tables, weights, names, orders, strict=True):
        mine, own = _own(one, table), own_rows(one)
        np.add.at(sums, about[:, 0], mine * weight)
        np.add.at(total, about[:, 0], weight)
        if weight.any():
            # Seeds with the same users share their derangements, as they share permutations.
            deranged = derangements(len(some), permutations, rng_for(played[0].seed, "null", *some))
            nulls.append(_under(table, weight, deranged[:, own]))
            permuted.append(_under(table, weight, order[:, own]))
            by_seed.append(float(np.average(mine, weights=weight)))
    values = sums / np.maximum(total, 1)
    # A distance as a share of the largest, so that its interval is not empty where all users have the same.
    largest = max(1.0, *(float(table.max()) for table in tables)) if lower_leaks else 1.0
    return measured(
        played,
        float(np.average(values, weights=total)),
        resampled_users(values / largest, total, rng_for(played[0].seed, "interval", name)),
        level=level,
        blind=blind,
        nulls=[np.full(permutations, blind)] if exact else nulls,
        permuted=None if exact else permuted,
        by_seed=by_seed,
        least=1 if exact else least_for_identities(level),
        users=int((total > 0).sum()),
        options=max(one.choices for one in played),
        exact=exact,
        exact_p=exact_p,
        largest=largest,
        lower_leaks=lower_leaks,
    )


def _numbered(one: AttackResult) -> list[tuple[str, int]]:
    """The user of each question, scored or not, with a number for users who are asked about more than once."""
    seen: dict[str, int] = {}
    found = []
    for place in one.about[:, 0] if one.answers is None else one.answers.who.reshape(len(one.answers.who), -1)[:, 0]:
        name = one.users[place]
        seen[name] = seen.get(name, -1) + 1
        found.append((name, seen[name]))
    return found


def _under(table: Weights, weight: Weights, orders: IntArray) -> Weights:
    """The mean where each scored user gets the list of another client, once per permutation (permutations, users)."""
    return np.asarray(table[orders, np.arange(table.shape[1])] @ weight / weight.sum())


def near(one: AttackResult) -> list[PerRecord]:
    """How near the rankings are to each user's secret."""
    place = places(one)
    nearest = {f"top{k}": _own(one, _nearest(one, k)) for k in PLACES}
    return [
        PerRecord(
            user=one.users[one.about[row, 0]],
            place=_told(place[own, row]),
            elsewhere=_told(place[:, row].min()),
            distances={name: int(values[row]) for name, values in nearest.items()},
        )
        for row, own in enumerate(own_rows(one).tolist())
    ]


def _told(place: float) -> int | None:
    return int(place) + 1 if np.isfinite(place) else None


def _nearest(one: AttackResult, k: int) -> Weights:
    """How near the first k records of each ranking (row) come to each user's secret (column)."""
    first = _lists(one)[:, :k]
    named, where = np.unique(first.reshape(-1, first.shape[2]), axis=0, return_inverse=True)
    each = np.stack([edit_distances(named, secret) for secret in one.right], axis=1)
    return np.asarray(each[where.reshape(first.shape[:2])].min(axis=1), dtype=np.float64)


def edit_distances(records: Predictions, secret: IntArray) -> IntArray:
    """How many characters must be inserted, left out or replaced to turn each record into the secret.

    Levenshtein's distance (1966), row by row of his table for all records at once; ids with 0 after the end.

    >>> edit_distances(np.array([[1, 2, 3, 4], [1, 3, 2, 0]]), np.array([1, 2, 3, 0]))
    array([1, 2])
    """
    steps = np.arange(records.shape[1] + 1)
    row = np.broadcast_to(steps, (len(records), len(steps)))
    for i, token in enumerate(secret[secret > 0], 1):
        replaced = row[:, :-1] + (records != token)
        row = np.concatenate([np.full((len(records), 1), i), np.minimum(replaced, row[:, 1:] + 1)], axis=1)
        # What is left out to the left: the cheapest start plus one for every step from there.
        row = np.minimum.accumulate(row - steps, axis=1) + steps
    return np.asarray(row[np.arange(len(records)), (records > 0).sum(axis=1)])
