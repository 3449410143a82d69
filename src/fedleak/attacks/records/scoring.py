"""How likely each of many records is to a model: every beginning that records share is read once.

Exposure is the mean log-probability of a record's characters, minus the logarithm of its perplexity (Yuan et al.,
2021, eq. 5). Candidates of one format share their literal text, and those that a search finds share most of their
digits too, so they are put into a trie, which is read level by level, all its nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fedleak.attacks.records.language import Language, Opening
from fedleak.core import IntArray, Params
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread
from fedleak.lazy import torch

__all__ = ["Scores", "Trie", "log_probabilities", "exposures"]

Scores = npt.NDArray[np.float64]

_AT_ONCE = 4096  # nodes, over all snapshots: more do not fit into the processor's cache and are slower
_MOST_SNAPSHOTS = 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Level:
    tokens: torch.Tensor  # (nodes,) the character at each node
    parents: torch.Tensor  # (nodes,) index into the inner nodes of the level before
    inner: torch.Tensor  # nodes that go on
    records: IntArray  # records that end in this level
    ends: torch.Tensor  # and the nodes at which they do


class Trie:
    """Records with their shared beginnings joined."""

    def __init__(self, ids: IntArray) -> None:
        """Take rows of ids, with 0 after the end of a record."""
        self.lengths: IntArray = (ids != 0).sum(1)
        order = np.lexsort(ids.T[::-1])
        rows = ids[order]
        # A record's node at a depth is a new one if the record before differs from it up to there.
        new = np.ones(rows.shape, dtype=np.bool_)
        new[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
        self.levels: list[_Level] = []
        above = np.zeros(len(rows), dtype=np.int64)  # of each row, its place among the inner nodes above
        for depth in range(rows.shape[1]):
            alive = rows[:, depth] != 0
            first = new[:, depth] & alive
            node = np.cumsum(first) - 1
            ended = alive & (self.lengths[order] == depth + 1)
            goes_on = np.zeros(int(first.sum()), dtype=np.bool_)
            goes_on[node[alive & ~ended]] = True
            self.levels.append(
                _Level(
                    torch.from_numpy(rows[first, depth]),
                    torch.from_numpy(above[first]),
                    torch.from_numpy(np.flatnonzero(goes_on)),
                    order[ended],
                    torch.from_numpy(node[ended]),
                )
            )
            above = (np.cumsum(goes_on) - 1)[node]

    @property
    def widest(self) -> int:
        """The most nodes of a level."""
        return max(len(level.tokens) for level in self.levels)

    def read(self, opening: Opening) -> Scores:
        """The log-probability of every record under every snapshot: (snapshots, records)."""
        logs, state = opening.logs, opening.state
        total = torch.zeros(logs.shape[:2], dtype=torch.float64)  # of the inner nodes above
        found = np.empty((logs.shape[0], len(self.lengths)))
        for level in self.levels:
            flat = level.parents * logs.shape[2] + level.tokens
            reached = total.index_select(1, level.parents) + logs.flatten(1).index_select(1, flat)
            found[:, level.records] = reached.index_select(1, level.ends).numpy()
            if len(level.inner):
                state = state.take(level.parents.index_select(0, level.inner))
                logs, state = opening.reader.read(state, level.tokens.index_select(0, level.inner))
                total = reached.index_select(1, level.inner)
        return found


def log_probabilities(
    language: Language, snapshots: Iterable[Params], records: Sequence[str], workers: int = 1
) -> Scores:
    """The log-probability of every record under every snapshot: (snapshots, records).

    Snapshots are taken as they come, a few at a time, so that a trace can be streamed from disk.
    """
    if not records or not all(records):
        raise AttackError("there is no record to score, or one without any character")
    ids = language.encode(records)
    order = np.lexsort(ids.T[::-1])  # neighbours share the most
    parts = [order[start : start + _AT_ONCE] for start in range(0, len(order), _AT_ONCE)]
    tries = [Trie(ids[part]) for part in parts]
    together = min(_MOST_SNAPSHOTS, max(1, _AT_ONCE // max(trie.widest for trie in tries)))

    def score(group: tuple[Params, ...]) -> Scores:
        found = np.empty((len(group), len(records)))
        with torch.inference_mode():
            opening = language.open(*group)
            for part, trie in zip(parts, tries, strict=True):
                found[:, part] = trie.read(opening)
        return found

    with one_thread(), ThreadPoolExecutor(workers) as pool:
        found = [
            scores
            for turn in _groups(_groups(snapshots, together), workers)  # no more in memory than are at work
            for scores in pool.map(score, turn)
        ]
    if not found:
        raise AttackError("there is no snapshot to score records with")
    return np.concatenate(found)


def exposures(logs: Scores, records: Sequence[str]) -> Scores:
    """Exposure of each record: its log-probability per character, in nats (Yuan et al., 2021, eq. 5)."""
    lengths: Scores = np.array([len(record) for record in records], dtype=np.float64)
    return logs / lengths


def _groups(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    items = iter(items)
    while group := tuple(islice(items, size)):
        yield group
