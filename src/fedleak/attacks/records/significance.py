"""Could a correlation be an accident? Permutation tests, and the correction for asking about many records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedleak.attacks.records.eavesdrop import standard_ranks
from fedleak.attacks.records.scoring import Scores
from fedleak.core import IntArray
from fedleak.lazy import stats

__all__ = ["contrasts", "against_permuted", "named_by_accident", "holm"]


_SLACK = 1e-9  # equal correlations may differ in the last digits with the order of a sum


def contrasts(signals: IntArray | Scores) -> Scores:
    """How each client's signal differs from that of all clients in the same round.

    Whatever is learnt in a round is learnt better together, so watermarks move alike whoever took part; only their
    differences say whose round it was. As many clients take part in every round, so presences stay as they are.
    """
    return np.asarray(signals - signals.mean(axis=1, keepdims=True))


def against_permuted(
    signals: IntArray | Scores,
    changes: Scores,
    rng: np.random.Generator,
    *,
    permutations: int = 999,
    block: int | None = None,
) -> Scores:
    """How often a record correlates as highly with any signal when rounds are permuted: a p-value for each record.

    Signals (rounds, clients) are permuted together, and the highest of their correlations is compared: an adversary
    attributes a record to whoever fits best, and the best of many fits better by chance. Who takes part is drawn again
    in every round, so that any order was as likely. With `block` only rounds of so many in a row change places: what
    grows or shrinks in the course of training stays where it was (Good, 2005, on restricted permutations). The
    observed order counts as one of the permutations, so that no p-value is zero (Phipson and Smyth, 2010).
    """
    left, right = standard_ranks(signals), standard_ranks(changes)
    observed = (left.T @ right).max(axis=0)
    reached = np.ones(changes.shape[1])
    for order in _orders(len(left), block, permutations, rng):
        reached += (left[order].T @ right).max(axis=0) >= observed - _SLACK
    return np.asarray(reached / (permutations + 1))


def named_by_accident(
    signals: IntArray | Scores,
    changes: Scores,
    exposure: Scores,
    named: IntArray,
    rng: np.random.Generator,
    *,
    permutations: int = 999,
    block: int | None = None,
) -> Scores:
    """How often a record that correlates as highly is named first for a client when rounds are permuted.

    A p-value for the record (`named`, by client) that an adversary names first, from nothing but what it sees itself.
    That record was picked out of many candidates because it correlates, so the pick is repeated in every permutation:
    by the sum of ranks of correlation and final exposure.
    """
    left, right = standard_ranks(signals), standard_ranks(changes)
    clients = np.arange(len(named))
    observed = (left.T @ right)[clients, named]
    likely = stats.rankdata(-exposure)
    reached = np.ones(len(named))
    for order in _orders(len(left), block, permutations, rng):
        table = left[order].T @ right
        # Where sums are equal the higher correlation comes first; these are the correlation times the rounds.
        sums = stats.rankdata(-table, axis=1) + likely - table / (4 * len(left))
        reached += table[clients, sums.argmin(axis=1)] >= observed - _SLACK
    return np.asarray(reached / (permutations + 1))


def _orders(rounds: int, block: int | None, count: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Orders of the rounds in which only those of one block change places."""
    size = block or rounds
    for _ in range(count):
        yield np.concatenate([at + rng.permutation(min(size, rounds - at)) for at in range(0, rounds, size)])


def holm(p: Scores) -> Scores:
    """Correct p-values for asking several questions at once (Holm, 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(steps, 1.0)
    return corrected
