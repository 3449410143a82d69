"""Whether an attack has shown a leak: a permutation test, corrected for all attacks that were tried on the question.

A question is one adversary's in one game on one run; defence-aware and -unaware attacks on a defence are on the same.
Whoever picks the strongest of many attacks picks the luckiest too, so an attack is compared with the largest score that
any of them reaches under the same permutation of users (the max statistic of Westfall and Young, 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.metrics.attack_result import Measured
from fedleak.metrics.interval import Interval

__all__ = ["Decision", "decide"]

_EQUAL = 1e-9  # standard deviations: the same score, summed in another order


@dataclass(frozen=True, slots=True)
class Decision:
    """What the test says of one attack."""

    leaks: bool | None  # None: there are too few users to say
    p: float
    everywhere: Interval  # the interval that holds for all attacks on the question at once


def decide(measured: Measured, *, level: float, tried: Sequence[Measured] = (), lower_leaks: bool = False) -> Decision:
    """Test one attack among all that were `tried` on the question (itself, if none is given), by the same metric.

    A leak needs both: a corrected p-value of at most 1 - level, and a value beyond `chance_high`, the upper end of the
    chance level, which is never below blind guessing. The interval is not asked: it tells how large a leak is.
    """
    family = list(tried) or [measured]
    beyond = measured.value < measured.chance_high if lower_leaks else measured.value > measured.chance_high
    p = _corrected(measured, family, -1.0 if lower_leaks else 1.0)
    independent = measured.users if measured.clients is None else measured.clients
    return Decision(
        leaks=None if independent < measured.least else bool(beyond and p <= 1 - level),
        p=p,
        everywhere=Interval(measured.low, measured.high)
        if measured.ends is None
        else measured.ends(1 - (1 - level) / len(family)),  # Bonferroni
    )


def _corrected(measured: Measured, family: Sequence[Measured], sign: float) -> float:
    """The p-value of one attack, of all permutations with the identity: never 0, and valid for any number of users."""
    if measured.exact_p is not None:
        return min(1.0, measured.exact_p * len(family))
    largest = np.max([_standardised(one, sign) for one in family if one.exact_p is None], axis=0)
    mine = _standardised(measured, sign)[0]
    return float(np.mean(largest >= mine - _EQUAL))


def _standardised(measured: Measured, sign: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The score, then that of every permutation, so that attacks with a wide null do not hide the others.

    Mean and deviation include the score itself: they must be the same whichever permutation is the true one.
    """
    null = measured.null if measured.permuted is None else measured.permuted
    observed = float(np.mean(measured.by_seed)) if measured.by_seed else measured.value
    values = sign * np.append(observed, null)
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 1e-12 else np.zeros(len(values))
