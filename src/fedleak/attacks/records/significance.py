"""Could a correlation be an accident? Permutation tests, and the correction for asking about many records."""

from __future__ import annotations

import numpy as np

from fedleak.attacks.records.eavesdrop import standard_ranks
from fedleak.attacks.records.scoring import Scores
from fedleak.core import IntArray

__all__ = ["contrasts", "against_permuted", "holm"]


def contrasts(signals: IntArray | Scores) -> Scores:
    """How each device's signal differs from that of all devices in the same round.

    Whatever is learnt in a round is learnt better together, so watermarks move alike whoever took part; only their
    differences say whose round it was. As many devices take part in every round, so presences stay as they are.
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

    Signals (rounds, devices) are permuted together, and the highest of their correlations is compared: an adversary
    attributes a record to whoever fits best, and the best of many fits better by chance. Who takes part is drawn anew
    in every round, so that any order was as likely. With `block` only rounds of so many in a row change places: what
    grows or shrinks in the course of training stays where it was (Good, 2005, on restricted permutations). The
    observed order counts as one of the permutations, so that no p-value is zero (Phipson and Smyth, 2010).
    """
    left, right = standard_ranks(signals), standard_ranks(changes)
    rounds = len(left)
    observed = (left.T @ right).max(axis=0)
    size = block or rounds
    reached = np.ones(changes.shape[1])
    for _ in range(permutations):
        order = np.concatenate([at + rng.permutation(min(size, rounds - at)) for at in range(0, rounds, size)])
        reached += (left[order].T @ right).max(axis=0) >= observed - 1e-9
    return np.asarray(reached / (permutations + 1))


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
