"""The `disaggregate` game: estimated mean updates of clients against the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.metrics.attack_result import Answers, AttackResult, Measured
from fedleak.metrics.records import tabled

__all__ = ["MeanUpdates", "cosines", "recovered", "recovered_table", "likeness"]

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanUpdates(Answers):
    """The true mean update of every client, (clients, size)."""

    means: Matrix


def recovered(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the clients whose own mean update is the most similar to their estimate."""
    tables = [recovered_table(one) for one in played]
    return _measured(
        played, "recovered", tables, float(np.mean([1 / len(one.right) for one in played])), level, permutations
    )


def recovered_table(one: AttackResult) -> Matrix:
    """Whether each client's own mean (column) is the most similar to an estimate (row), as a share among equals."""
    table = _table(one)
    first = table >= table.max(axis=1, keepdims=True)
    # A zero estimate is equally similar to every client's update.
    return np.asarray(first / first.sum(axis=1, keepdims=True))


def likeness(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean cosine of estimates with the true means, 0 where it is negative."""
    tables = [np.clip(_table(one), 0, 1) for one in played]
    return _measured(played, "likeness", tables, 0.0, level, permutations)


def cosines(guess: Matrix, means: Matrix) -> Matrix:
    """The cosine of each estimate (row) with each true mean (column), after subtracting the mean over clients."""
    sides = [rows - rows.mean(axis=0) for rows in (guess, means)]
    first, second = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300) for rows in sides)
    return np.asarray(first @ second.T)


def _table(one: AttackResult) -> Matrix:
    assert isinstance(one.answers, MeanUpdates), "estimates are marked against true means"
    return cosines(one.claims.astype(np.float64), one.answers.means)


def _measured(
    played: Sequence[AttackResult], name: str, tables: Sequence[Matrix], blind: float, level: float, permutations: int
) -> Measured:
    return tabled(played, name, tables, [np.ones(len(table)) for table in tables], blind, level, permutations)
