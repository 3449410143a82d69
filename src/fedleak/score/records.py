"""The `extract` game: rankings of records, one for each device.

Two things are told apart. A secret is *extracted* if it is named at all, for whomever: the model has memorised it. It
is *attributed* if it is named for its own device before any other. `top1`, `top5`, ... ask for both at once (Yuan et
al., 2021, section V-A). Chance gives every device another one's ranking: an attack that extracts everything and
attributes nothing is then at chance, however many records there are to choose from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, derive
from fedleak.games.game import Claims
from fedleak.score.interval import by_user
from fedleak.score.played import Measured, Played, measured, pooled
from fedleak.score.ranking import Weights
from fedleak.score.result import PerRecord
from fedleak.score.tally import derangement

__all__ = ["PLACES", "top", "extracted", "attributed", "any_found", "near", "edit_distance"]

PLACES = (1, 5, 10, 20, 50)


def top(k: int, played: Sequence[Played], *, level: float, permutations: int) -> Measured:
    """Share of the people whose secret is among the first k records named for their own device."""
    return _measured(
        played,
        f"top{k}",
        [(places(one) < k).astype(np.float64) for one in played],
        [np.ones(len(one.right)) for one in played],
        float(np.mean([min(1.0, k / one.choices) for one in played])),
        level,
        permutations,
    )


def extracted(played: Sequence[Played], *, level: float, permutations: int) -> Measured:
    """Share of the people whose secret is named for anybody.

    Exchanging the rankings changes nothing here; chance is to name as many different records blindly.
    """
    found = [np.isfinite(places(one).min(axis=0)) for one in played]
    guesses = [len(np.unique(one.claims.reshape(-1, one.claims.shape[-1]), axis=0)) for one in played]
    blind = float(np.mean([min(1.0, n / one.choices) for n, one in zip(guesses, played, strict=True)]))
    return _measured(
        played,
        "extracted",
        [np.broadcast_to(row.astype(np.float64), (len(row), len(row))) for row in found],
        [np.ones(len(row)) for row in found],
        blind,
        level,
        permutations,
        exact=True,
    )


def attributed(played: Sequence[Played], *, level: float, permutations: int) -> Measured:
    """Of the secrets that are extracted, the share that is named higher for its own device than for any other.

    Where several devices have it at the same place, each is as good a guess.
    """
    tables, weights = [], []
    for one in played:
        place = places(one)
        best = place.min(axis=0)
        first = (place == best) & np.isfinite(best)
        tables.append(first / np.maximum(first.sum(axis=0), 1))
        weights.append(np.isfinite(best).astype(np.float64))
    blind = float(np.mean([1 / len(one.right) for one in played]))
    return _measured(played, "attributed", tables, weights, blind, level, permutations)


def any_found(played: Sequence[Played]) -> bool:
    """Whether any secret was extracted."""
    return any(np.isfinite(places(one)).any() for one in played)


def places(one: Played) -> Weights:
    """Where the ranking of each device (row) has the secret of each person (column), from 0; infinity: nowhere."""
    found = np.full((len(one.claims), len(one.right)), np.inf)
    for column, secret in enumerate(one.right):
        same = (one.claims == secret).all(axis=2)
        found[:, column] = np.where(same.any(axis=1), same.argmax(axis=1), np.inf)
    return found


def _measured(
    played: Sequence[Played],
    name: str,
    tables: Sequence[npt.NDArray[np.float64]],
    weights: Sequence[npt.NDArray[np.float64]],
    blind: float,
    level: float,
    permutations: int,
    *,
    exact: bool = False,
) -> Measured:
    """Put a metric together from what each ranking (row) scores for each person (column)."""
    people, who = pooled(played)
    sums, total, nulls = np.zeros(people), np.zeros(people), []
    for one, persons, table, weight in zip(played, who, tables, weights, strict=True):
        np.add.at(sums, persons[:, 0], table.diagonal() * weight)
        np.add.at(total, persons[:, 0], weight)
        if weight.any():
            nulls.append(_null(table, weight, permutations, derive(one.seed, "null", name)))
    values = sums / np.maximum(total, 1)
    return measured(
        played,
        float(np.average(values, weights=total)),
        by_user(values, total, level, derive(played[0].seed, "interval", name)),
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


def near(one: Played) -> list[PerRecord]:
    """How near the rankings came to each person's secret."""
    place = places(one)
    return [
        PerRecord(
            user=one.people[one.about[row, 0]],
            place=_told(place[row, row]),
            elsewhere=_told(place[:, row].min()),
            distances=_distances(one.claims[row], one.right[row]),
        )
        for row in range(len(one.right))
    ]


def _told(place: float) -> int | None:
    return int(place) + 1 if np.isfinite(place) else None


def _distances(ranking: Claims, secret: IntArray) -> dict[str, int]:
    wanted = [int(token) for token in secret if token]
    each = np.array([edit_distance([int(token) for token in row if token], wanted) for row in ranking])
    return {f"top{k}": int(each[:k].min()) for k in PLACES}


def edit_distance(one: Sequence[object], other: Sequence[object]) -> int:
    """How many characters must be inserted, left out or replaced to turn one text into the other (Levenshtein, 1966).

    >>> edit_distance("123-45-6789", "123-54-6789")
    2
    """
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            above, row[j] = row[j], min(above + (left != right), row[j] + 1, row[j - 1] + 1)
    return row[-1]
