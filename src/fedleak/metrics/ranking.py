"""Average precision and the area under the ROC curve of one ranking under many weights at once.

A resample of users is a weight for every question, and a permutation is another set of right answers; both leave the
ranking as it is, so questions are sorted once and every resample costs two cumulative sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray

__all__ = ["Ranking", "Weights"]

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ranking:
    """Questions from the highest prediction to the lowest; equal ones share a threshold, as in scikit-learn."""

    order: IntArray  # the question in each place
    first: IntArray  # for each place, the first place with an equal prediction
    last: IntArray  # and the last one

    @classmethod
    def of(cls, claims: FloatArray) -> Ranking:
        """Rank one prediction per question."""
        order = np.argsort(-claims, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(claims[order]) != 0))
        sizes = np.diff(np.append(starts, len(order)))
        return cls(order, np.repeat(starts, sizes), np.repeat(starts + sizes - 1, sizes))

    def average_precision(self, yes: Weights, every: Weights) -> Weights:
        """Of each row of weights; `yes` is 0 where the true answer is no. NaN where a row has no yes at all."""
        yes, every = yes[:, self.order], every[:, self.order]
        found, made = (self._at_last(np.cumsum(weights, axis=1)) for weights in (yes, every))
        return _ratio((yes * found / np.maximum(made, 1e-12)).sum(axis=1), yes.sum(axis=1))

    def auc(self, yes: Weights, every: Weights) -> Weights:
        """How often a yes is ranked above a no, ties counting half; NaN where a row lacks one of the two."""
        yes, every = yes[:, self.order], every[:, self.order]
        no = every - yes
        passed = np.cumsum(no, axis=1)
        total, tied_or_above = passed[:, -1:], self._at_last(passed)
        above = np.where(self.first > 0, passed[:, self.first - 1], 0.0)
        beaten = total - (tied_or_above + above) / 2
        return _ratio((yes * beaten).sum(axis=1), yes.sum(axis=1) * total[:, 0])

    def _at_last(self, sums: Weights) -> Weights:
        # Predictions are seldom equal, and gathering every sum again costs more than the sums.
        return sums if (self.first == self.last).all() else sums[:, self.last]


def _ratio(part: Weights, whole: Weights) -> Weights:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))
