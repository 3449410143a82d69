"""Evidence fusion: weights learnt on the adversary's own data, and a one-to-one assignment of clients to users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray
from fedleak.lazy import scipy

__all__ = ["Trial", "weigh", "weigh_if_worth", "level_of_strangers", "one_to_one"]

Table = npt.NDArray[np.float64]

_RIDGE = 1e-3
_WORTH = 0.9  # how far doubtful evidence has to lower the surprise


@dataclass(frozen=True, slots=True)
class Trial:
    """Groups of updates whose sender the adversary knows, scored against users by every kind of evidence."""

    scores: FloatArray  # (evidence, groups, users)
    right: IntArray


def weigh(trials: Sequence[Trial]) -> Table:
    """Fit weights of the evidence by maximum likelihood of the true users (softmax regression)."""
    kinds = trials[0].scores.shape[0]
    # On one scale, so that one starting point and one penalty serve all.
    scale = np.array([np.mean([trial.scores[kind].std() for trial in trials]) or 1.0 for kind in range(kinds)])
    scaled = [trial.scores / scale[:, None, None] for trial in trials]

    def surprise(weights: Table) -> tuple[float, Table]:
        total, slope, n = 0.0, np.zeros(kinds), 0
        for scores, trial in zip(scaled, trials, strict=True):
            logs = scipy.special.log_softmax(np.tensordot(weights, scores, 1), axis=1)
            rows = np.arange(len(trial.right))
            total -= logs[rows, trial.right].sum()
            expected = (scores * np.exp(logs)).sum(axis=2)
            slope -= (scores[:, rows, trial.right] - expected).sum(axis=1)
            n += len(rows)
        return total / n + _RIDGE * float(weights @ weights), slope / n + 2 * _RIDGE * weights

    found = scipy.optimize.minimize(surprise, np.ones(kinds), jac=True, method="L-BFGS-B", bounds=[(0, None)] * kinds)
    return np.asarray(np.maximum(found.x, 1e-3) / scale)


def weigh_if_worth(trials: Sequence[Trial], doubtful: npt.NDArray[np.bool_]) -> Table:
    """The same, with a weight of zero for doubtful kinds, unless they clearly help to name users in other trials.

    More kinds fit the trials better in any case. Half of the trials, which are about half of the users, judge weights
    that were fitted on the other half.
    """
    if not doubtful.any():
        return weigh(trials)
    half = len(trials) // 2
    parts = [trials[:half], trials[half:]]
    sure = [[Trial(trial.scores[~doubtful], trial.right) for trial in part] for part in parts]
    least, most = (sum(_surprise(weigh(kinds[i]), kinds[1 - i]) for i in range(2)) for kinds in (sure, parts))
    if most < _WORTH * least:
        return weigh(trials)
    weights = np.zeros(len(doubtful))
    weights[~doubtful] = weigh([trial for part in sure for trial in part])
    return weights


def _surprise(weights: Table, trials: Sequence[Trial]) -> float:
    """The mean negative log-likelihood of the true users."""
    found = []
    for trial in trials:
        logs = scipy.special.log_softmax(np.tensordot(weights, trial.scores, 1), axis=1)
        found.append(-logs[np.arange(len(trial.right)), trial.right])
    return float(np.concatenate(found).mean())


def level_of_strangers(trials: Sequence[Trial], weights: Table, seen: int) -> float:
    """The threshold of evidence that best separates seen users from strangers.

    The trials of users after the first `seen` serve as strangers.
    """
    mass, known = [], []
    for trial in trials:
        logits = np.tensordot(weights, trial.scores, 1)[:, :seen]
        mass.append(scipy.special.logsumexp(logits, axis=1))
        known.append(trial.right < seen)
    total, inside = np.concatenate(mass), np.concatenate(known)
    levels = np.sort(total)
    right = [np.mean(total[inside] >= x) + np.mean(total[~inside] < x) for x in levels]
    return float(levels[int(np.argmax(right))])


def one_to_one(logits: Table, sizes: IntArray, users: int) -> Table:
    """Log-probabilities given that every user has one client and all send about equally often.

    Rows (groups) sum to one; the columns of the first `users` are drawn towards equal numbers of updates in turn
    (Sinkhorn and Knopp, 1967), which is a soft assignment of groups to users: a user that fits one group well is no
    longer available for another. Columns after them (strangers) may take any number.
    """
    logs = scipy.special.log_softmax(logits, axis=1)
    if users < 2:
        return logs
    weight = np.log(sizes)[:, None]
    fair = np.log(max(1.0, float(sizes.sum())) / users)
    for _ in range(50):
        taken = scipy.special.logsumexp(logs[:, :users] + weight, axis=0)
        logs[:, :users] += np.minimum(0, fair - taken)
        logs = scipy.special.log_softmax(logs, axis=1)
    return logs
