"""The data of the figures of one attack."""

from __future__ import annotations

import numpy as np

from fedleak.metrics import identification, traits
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.permutation import average_precision, top
from fedleak.results.detail import DetailParts, PerUser, PerValue, ScoreHistogram

__all__ = ["identified", "answered", "yes_no"]

_POINTS = 60  # of a precision-recall curve: more are not visible
_SHOWN = 5  # most, and as many least, identifiable users in the confusion matrix
_BINS = 30  # of the histogram of predictions


def identified(played: AttackResult) -> DetailParts:
    """How identifiable each user is, and the confusion matrix."""
    count = identification.users(played)
    ap = average_precision(played.claims, played.right, count)
    answered = top(played.claims, played.right, 1, count).table.T  # (true user, answered user): share of updates
    counts = np.bincount(played.right, minlength=count)
    present = np.flatnonzero(counts[:count])
    # Ties by name: with pseudonyms, the order of the candidates must not show whose they are.
    order = np.array(sorted(present, key=lambda u: (-ap.per_user[u], played.options[u])), dtype=np.int64)
    users = []
    for u in order:
        others = np.where(np.arange(count) == u, -1.0, answered[u])
        worst = int(others.argmax())
        users.append(
            PerUser(
                user=played.options[u],
                ap=float(ap.per_user[u]),
                updates=int(counts[u]),
                mistaken_for=played.options[worst] if others[worst] > 0 else None,
            )
        )
    shown = order if len(order) <= 2 * _SHOWN else np.concatenate([order[:_SHOWN], order[-_SHOWN:]])
    recall, precision = curve(played)
    return DetailParts(
        users=users,
        confusion_users=[played.options[u] for u in shown],
        confusion=[[float(answered[u, v]) for v in shown] for u in shown],
        recall=recall,
        precision=precision,
    )


def answered(played: AttackResult) -> DetailParts:
    """How well each value of an attribute is predicted."""
    value, shares = traits.answered(played)
    counts = np.bincount(value, minlength=len(played.options))
    order = [int(v) for v in np.argsort(-counts, kind="stable")]
    means = {v: shares[value == v].mean(axis=0) if counts[v] else np.zeros(len(order)) for v in order}
    recall, precision = curve(played)
    return DetailParts(
        recall=recall,
        precision=precision,
        values=[
            PerValue(
                value=played.options[v],
                users=int(counts[v]),
                right=float(means[v][v]),
                answered=[float(means[v][other]) for other in order],
            )
            for v in order
        ],
    )


def yes_no(played: AttackResult) -> DetailParts:
    """How high the predictions are where the answer is yes, and where it is no."""
    edges = np.histogram_bin_edges(played.claims.astype(np.float64), bins=_BINS)
    yes, no = (np.histogram(played.claims[played.right == answer, 0], bins=edges)[0] for answer in (1, 0))
    claims = ScoreHistogram(edges=[float(edge) for edge in edges], yes=[int(n) for n in yes], no=[int(n) for n in no])
    recall, precision = curve(played)
    return DetailParts(recall=recall, precision=precision, claims=claims)


def curve(played: AttackResult) -> tuple[list[float], list[float]]:
    """Precision and recall over all pairs of question and option, thinned to what is visible."""
    if len(played.options) == 1:
        hits = played.right[:, None] == 1
    else:
        hits = played.right[:, None] == np.arange(len(played.options))
    scores = played.claims.ravel()
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(hits.ravel()[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # equal predictions share a threshold
    recall, precision = found[last] / found[-1], found[last] / (last + 1)
    picked = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1, _POINTS)).clip(0, len(recall) - 1))
    return [float(r) for r in recall[picked]], [float(p) for p in precision[picked]]
