"""What the figures of one attack are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedleak.core import derive
from fedleak.score.result import Detail, PerUser
from fedleak.score.score import Played
from fedleak.score.tally import average_precision, top

__all__ = ["detail"]

_POINTS = 60  # of a precision-recall curve: more cannot be seen
_SHOWN = 5  # most, and as many least, identifiable users in the confusion


def detail(played: Played, labels: dict[str, Any], permutations: int) -> Detail:
    """Summarise the claims of one run; `labels` says which (attack, adversary, game, defence, control)."""
    ap = average_precision(played.claims, played.right)
    answered = top(played.claims, played.right, 1).table.T  # (true user, answered user): share of updates
    counts = np.bincount(played.right, minlength=len(played.options))
    present = np.flatnonzero(counts)
    order = present[np.argsort(-ap.per_user[present], kind="stable")]
    users = []
    for u in order:
        others = np.where(np.arange(len(played.options)) == u, -1.0, answered[u])
        worst = int(others.argmax())
        users.append(
            PerUser(
                user=played.options[u],
                ap=float(ap.per_user[u]),
                updates=int(counts[u]),
                mistaken_for=played.options[worst] if others[worst] > 0 else None,
            )
        )
    recall, precision = curve(played)
    shown = order if len(order) <= 2 * _SHOWN else np.concatenate([order[:_SHOWN], order[-_SHOWN:]])
    return Detail(
        **labels,
        users=users,
        recall=recall,
        precision=precision,
        null=[float(v) for v in ap.null(permutations, derive(played.seed, "null", "ap"))],
        confusion_users=[played.options[u] for u in shown],
        confusion=[[float(answered[u, v]) for v in shown] for u in shown],
    )


def curve(played: Played) -> tuple[list[float], list[float]]:
    """Precision and recall over all pairs of update and option, thinned to what can be seen."""
    hits = np.zeros(played.claims.shape, dtype=bool)
    hits[np.arange(len(played.right)), played.right] = True
    scores = played.claims.ravel()
    order = np.argsort(-scores, kind="stable")
    found = np.cumsum(hits.ravel()[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # equal claims share a threshold
    recall, precision = found[last] / found[-1], found[last] / (last + 1)
    picked = np.unique(np.searchsorted(recall, np.linspace(recall[0], 1, _POINTS)).clip(0, len(recall) - 1))
    return [float(r) for r in recall[picked]], [float(p) for p in precision[picked]]
