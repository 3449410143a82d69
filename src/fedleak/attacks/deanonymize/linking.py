"""Link anonymous updates of the same client by agglomerative clustering.

An update resembles the others of its client more than any user's prior data, because they were trained on the same
examples. Linked updates are named together, and the noise of each round averages out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.attacks.features import unit
from fedleak.core import FloatArray, IntArray

__all__ = ["CERTAIN", "Joining", "Tried", "alike", "alike_in_size", "agglomerate", "groups", "outcomes", "threshold"]

Tried: TypeAlias = tuple[float, bool]
"""How similar two groups were, and whether it was right to join them."""

_NEVER = np.float32(-1e9)
CERTAIN = 1e6  # the similarity of updates that must be one client's: above any threshold
_WORSE = 3  # how many right joinings a wrong one undoes: it mixes two users up for good


@dataclass(frozen=True, slots=True)
class Joining:
    """Two groups that became one, named by an update of each."""

    one: int
    other: int
    similarity: float


def alike(rows: npt.NDArray[Any]) -> FloatArray:
    """(updates, updates): how far the numbers of any two go together; nothing goes with numbers that are all equal."""
    apart = unit(rows - rows.mean(axis=1, keepdims=True, dtype=np.float32))
    return np.asarray(apart @ apart.T, dtype=np.float32)


def alike_in_size(sizes: IntArray, clients: int) -> FloatArray:
    """(updates, updates): 1 for two of a size that only one client can have, 0 for two of a size that all have.

    A client trains on the same number of examples in every round, so two updates of different sizes are never from one
    client. How many clients have a size shows in how many updates have it: all take part about equally often. Where
    there are as many sizes as clients, every size is one client's.
    """
    _, place, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    sharing = np.clip(counts * clients / len(sizes), 1, clients)
    rare = 1 - np.log(sharing[place]) / np.log(max(2, clients))
    if len(counts) >= clients:
        rare[:] = CERTAIN
    return np.where(place[:, None] == place[None, :], rare[:, None], _NEVER).astype(np.float32)


def agglomerate(similarity: FloatArray, rounds: IntArray) -> list[Joining]:
    """Average-linkage clustering: repeatedly join the two groups with the largest mean similarity.

    A client sends one update per round, so groups that share a round are never joined, nor are those that
    `alike_in_size` excludes.
    """
    if len(similarity) < 2:
        return []
    table = np.array(similarity, dtype=np.float32)
    table[rounds[:, None] == rounds[None, :]] = _NEVER
    size = np.ones(len(table), dtype=np.float32)
    here = np.arange(len(table))
    best = table.argmax(axis=1)
    value = table[here, best]
    joined = []
    for _ in range(len(table) - 1):
        i = int(value.argmax())
        if value[i] <= 0:
            break
        j = int(best[i])
        joined.append(Joining(i, j, float(value[i])))
        row = (size[i] * table[i] + size[j] * table[j]) / (size[i] + size[j])
        row[(table[i] <= _NEVER / 2) | (table[j] <= _NEVER / 2)] = _NEVER
        size[i] += size[j]
        table[i] = table[:, i] = row
        table[j] = table[:, j] = _NEVER
        value[j] = _NEVER
        stale = np.flatnonzero((value > _NEVER / 2) & ((best == i) | (best == j)))
        stale = np.union1d(stale, [i])
        best[stale] = table[stale].argmax(axis=1)
        value[stale] = table[stale, best[stale]]
        # A mean lies between its terms, so no other row's best can have become better than it was.
    return joined


def groups(joined: list[Joining], updates: int, least: float) -> IntArray:
    """The group of every update, when joining stops at the first similarity below `least`."""
    client = np.arange(updates)
    for joining in joined:
        if joining.similarity < least:
            break
        client[client == client[joining.other]] = client[joining.one]
    return np.unique(client, return_inverse=True)[1].astype(np.int64)


def outcomes(joined: Sequence[Joining], who: IntArray) -> list[Tried]:
    """How similar the groups of each joining were, and whether it was right, where the senders are known."""
    return [(j.similarity, bool(who[j.one] == who[j.other])) for j in joined]


def threshold(tried: Sequence[Tried]) -> float:
    """Where joining should have stopped for the adversary's own clients, of which it knows the answer."""
    ordered = sorted(tried, reverse=True)
    gains = np.cumsum([1 if right else -_WORSE for _, right in ordered])
    if not len(gains) or gains.max() <= 0:
        return CERTAIN / 2
    last = int(np.flatnonzero(gains == gains.max())[-1])
    here = ordered[last][0]
    after = ordered[last + 1][0] if last + 1 < len(ordered) else 0.0
    return (here + min(after, here)) / 2
