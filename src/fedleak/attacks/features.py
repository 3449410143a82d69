"""Updates as the papers' attacks look at them: one layer, flattened, scaled to length one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Questions
from fedleak.views.view import View

__all__ = ["Features", "features", "labelled", "unit", "layer_name", "spread"]


@dataclass(frozen=True, slots=True)
class Features:
    """Labelled updates of the adversary's shadow devices, and the anonymous ones it is asked about."""

    known: FloatArray
    who: IntArray  # candidate index of each known update
    asked: FloatArray


def layer_name(view: View, layer: str) -> str:
    """Resolve a layer's name; `last` is the one nearest to the output."""
    names = [part.name for part in view.layout]
    if layer == "last":
        return names[-1]
    if layer not in names:
        raise AttackError(f"the model has no layer '{layer}'{did_you_mean(layer, names)}")
    return layer


def features(view: View, questions: Questions, layer: str) -> Features:
    """Read one layer of the updates that matter, where the options are the candidates."""
    found = labelled(view, questions, layer)
    # In the open world the candidates after the last option are strangers to learn `unseen` from.
    return replace(found, who=np.minimum(found.who, len(questions.options) - 1))


def labelled(view: View, questions: Questions, layer: str) -> Features:
    """Read one layer of the updates that matter; nothing else is loaded from disk."""
    updates = view.updates
    shadows = np.flatnonzero(updates.shadow >= 0)
    if len(shadows) == 0:
        raise AttackError("no shadow device was selected in any round, so no labelled update exists; train more rounds")
    table = updates.layer(layer_name(view, layer))
    return Features(
        known=unit(np.asarray(table[shadows], dtype=np.float32)),
        who=updates.shadow[shadows],
        asked=unit(np.asarray(table[questions.updates], dtype=np.float32)),
    )


def unit(rows: FloatArray) -> FloatArray:
    """Scale each row to length one; a row of zeros stays as it is."""
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


def spread(scores: FloatArray, classes: IntArray, options: int) -> FloatArray:
    """Give candidates that no labelled update stands for the lowest score of each question.

    A shadow device may never have been selected; the question about its user must be answered all the same.
    """
    answers = np.repeat(scores.min(axis=1, keepdims=True), options, axis=1).astype(np.float32)
    answers[:, classes] = scores
    return answers
