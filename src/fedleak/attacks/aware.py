"""What a defence-aware attacker learns from: raw or defended updates of its own clients, whichever identifies better.

Imitating a defence removes the mismatch between its own updates and those of users, but loses signal: noise on a
labelled update only hides what there is to learn. An attacker that knows the defence need not imitate it. Its clients
send raw updates; it computes what each would have sent with the defence, if trials on its own data show that this is
better to learn from.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedleak.attacks.shadow import Reduce, defend, defend_halves, divide, imitable, rebuilt, retrain, train_once
from fedleak.core import FloatArray, IntArray, Observation
from fedleak.federation.model import Model
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["learn_from", "raw_is_better", "reciprocal_rank"]

_SNAPSHOTS = 4  # on which the trials train; they compare two sides by their means, which takes few
_SEED = 0  # all attacks of a run then choose alike


def learn_from(view: View, prior: Prior | None, rows: IntArray, known: FloatArray, reduce: Reduce) -> FloatArray:
    """Labelled updates to learn from: `known`, which clients of the adversary sent, or the same with the defence.

    `rows` are theirs in the view, and `reduce` makes of whole updates what `known` has of them. An adversary that knows
    of no defence, does not have the models, or cannot build them has only the first.
    """
    if prior is None or not imitable(view) or view.adversary.lacks(Observation.SNAPSHOTS):
        return known
    model = rebuilt(view)
    when, who = view.updates.round[rows], view.updates.shadow[rows]
    # Only users of whom it has examples: of others a game may give it no more than a text.
    present = replace(prior, examples=tuple(prior.examples[i] for i in np.unique(who)))
    if model is None or raw_is_better(view, model, present, reduce):
        return known
    data = defend(view, model, prior, prior.examples, _SEED)
    defended = np.empty_like(known)
    for number in np.unique(when).tolist():
        here = np.flatnonzero(when == number)
        mine = [data[i] for i in who[here]]
        defended[here] = reduce(train_once(view, model, mine, number, _SEED, defences=imitable(view)))
    return defended


def raw_is_better(view: View, model: Model, prior: Prior, reduce: Reduce) -> bool:
    """Whether defended halves of users' prior data are named better by the raw other halves than by defended ones."""
    divided = divide(prior, 1, _SEED)
    defended = defend_halves(view, model, prior, divided, _SEED)
    made = retrain(view, model, prior, _SNAPSHOTS, divided, reduce, _SEED, defended=defended)
    found = {}
    for raw in (True, False):
        tried = []
        for half in range(2):
            asked = made.defended & (made.part == half)
            other = (made.part == 1 - half) & (made.defended != raw)
            tried.append(reciprocal_rank(made.rows[asked], made.who[asked], made.rows[other], made.who[other]))
        found[raw] = np.mean(tried)
    return bool(found[True] >= found[False])


def reciprocal_rank(asked: FloatArray, right: IntArray, known: FloatArray, who: IntArray) -> float:
    """The mean reciprocal rank of the right user, by the cosine with each user's mean."""
    users, place = np.unique(who, return_inverse=True)
    means = np.zeros((len(users), known.shape[1]), dtype=np.float32)
    np.add.at(means, place, known)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    scores = asked @ means.T
    mine = scores[np.arange(len(right)), np.searchsorted(users, right)]
    return float(np.mean(1 / (scores >= mine[:, None]).sum(axis=1)))
