"""The `extract` game: rankings of records, one for each client.

Two things are distinguished. A secret is *extracted* if it is predicted for any client: the model has memorised it. It
is *attributed* if it ranks higher for its own client than for any other. `top1`, `top5`, ... need both (Yuan et al.,
2021, section V-A), and `distance1`, `distance5`, ... measure how near the nearest of the first k records is. Chance
gives every client the ranking of another: an attack that extracts everything and attributes nothing is then at chance,
whatever the number of records.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, rng_for
from fedleak.metrics.attack_result import AttackResult, Measured, Predictions, measured, pooled
from fedleak.metrics.interval import by_user
from fedleak.metrics.permutation import derangement
from fedleak.metrics.ranking import Weights
from fedleak.results.detail import PerRecord

__all__ = ["PLACES", "top", "distance", "extracted", "attributed", "any_found", "near", "edit_distances", "tabled"]

PLACES = (1, 5, 10, 20, 50)


def top(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the users whose secret is among the first k records predicted for their own client."""
    return tabled(
        played,
        f"top{k}",
        [(places(one) < k).astype(np.float64) for one in played],
        [np.ones(len(one.right)) for one in played],
        float(np.mean([min(1.0, k / one.choices) for one in played])),
        level,
        permutations,
    )


def distance(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """The mean smallest edit distance between a user's secret and the first k records for their client.

    Lower values leak more (Yuan et al., 2021, Tables II, IV, VI). Chance is the distance to another
    client's ranking: how near luck comes depends on how varied the records of a ranking are, and those are as varied.
    """
    users, who = pooled(played)
    sums, total, nulls, farthest = np.zeros(users), np.zeros(users), [], 1.0
    for one, about in zip(played, who, strict=True):
        table = _nearest(one, k)
        np.add.at(sums, about[:, 0], table.diagonal())
        np.add.at(total, about[:, 0], 1)
        farthest = max(farthest, float(table.max()))
        nulls.append(_null(table, np.ones(len(table)), permutations, rng_for(one.seed, "null", f"distance{k}")))
    values = sums / total
    # As a share of the largest distance, so that the interval is not empty where all users have the same distance.
    found = by_user(values / farthest, total, level, rng_for(played[0].seed, "interval", f"distance{k}"))
    null = np.mean(nulls, axis=0)
    return Measured(
        value=float(np.average(values, weights=total)),
        low=found.low * farthest,
        high=found.high * farthest,
        chance=float(null.mean()),
        chance_high=float(np.quantile(null, 0.025)),  # the lower tail, because lower leaks
        chance_low=float(np.quantile(null, 0.975)),
        n=sum(len(one.right) for one in played),
        users=users,
        options=max(one.choices for one in played),
        null=null,
    )


def extracted(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the users whose secret is predicted for any client.

    Permuting the rankings changes nothing here; chance is guessing as many different records at random.
    """
    found = [np.isfinite(places(one).min(axis=0)) for one in played]
    guesses = [len(np.unique(one.claims.reshape(-1, one.claims.shape[-1]), axis=0)) for one in played]
    blind = float(np.mean([min(1.0, n / one.choices) for n, one in zip(guesses, played, strict=True)]))
    return tabled(
        played,
        "extracted",
        [np.broadcast_to(row.astype(np.float64), (len(row), len(row))) for row in found],
        [np.ones(len(row)) for row in found],
        blind,
        level,
        permutations,
        exact=True,
    )


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
    blind = float(np.mean([1 / len(one.right) for one in played]))
    return tabled(played, "attributed", tables, weights, blind, level, permutations)


def any_found(played: Sequence[AttackResult]) -> bool:
    """Whether any secret was extracted."""
    return any(np.isfinite(places(one)).any() for one in played)


def places(one: AttackResult) -> Weights:
    """The rank of each user's secret (column) in the list of each client (row), from 0; infinity: absent."""
    found = np.full((len(one.claims), len(one.right)), np.inf)
    for column, secret in enumerate(one.right):
        same = (one.claims == secret).all(axis=2)
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
) -> Measured:
    """Build a metric from the scores of each question's predictions (row) for each user (column)."""
    users, who = pooled(played)
    sums, total, nulls = np.zeros(users), np.zeros(users), []
    for one, about, table, weight in zip(played, who, tables, weights, strict=True):
        np.add.at(sums, about[:, 0], table.diagonal() * weight)
        np.add.at(total, about[:, 0], weight)
        if weight.any():
            nulls.append(_null(table, weight, permutations, rng_for(one.seed, "null", name)))
    values = sums / np.maximum(total, 1)
    return measured(
        played,
        float(np.average(values, weights=total)),
        by_user(values, total, level, rng_for(played[0].seed, "interval", name)),
        blind=blind,
        nulls=[np.full(permutations, blind)] if exact else nulls,
        users=int((total > 0).sum()),
        options=max(one.choices for one in played),
        exact=exact,
    )


def _null(table: Weights, weight: Weights, permutations: int, rng: np.random.Generator) -> Weights:
    everyone = np.arange(len(table))
    return np.array(
        [np.average(table[derangement(len(table), rng), everyone], weights=weight) for _ in range(permutations)]
    )


def near(one: AttackResult) -> list[PerRecord]:
    """How near the rankings are to each user's secret."""
    place = places(one)
    nearest = {f"top{k}": _nearest(one, k).diagonal() for k in PLACES}
    return [
        PerRecord(
            user=one.users[one.about[row, 0]],
            place=_told(place[row, row]),
            elsewhere=_told(place[:, row].min()),
            distances={name: int(values[row]) for name, values in nearest.items()},
        )
        for row in range(len(one.right))
    ]


def _told(place: float) -> int | None:
    return int(place) + 1 if np.isfinite(place) else None


def _nearest(one: AttackResult, k: int) -> Weights:
    """How near the first k records of each ranking (row) come to each user's secret (column)."""
    first = one.claims[:, :k]
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
