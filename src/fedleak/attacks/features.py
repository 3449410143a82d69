"""Updates as features for the papers' attacks: one layer, flattened, scaled to unit norm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedleak.attacks.aware import learn_from
from fedleak.attacks.sketch import Sketch
from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = [
    "Features",
    "features",
    "stream_rows",
    "labelled",
    "fitting",
    "unit",
    "layer_name",
    "fill_missing_candidates",
]

_FEWEST = 64  # a sketch of fewer numbers compares nothing any more


@dataclass(frozen=True, slots=True)
class Features:
    """Labelled updates of shadow clients, and the anonymous updates of the questions."""

    known: FloatArray
    who: IntArray  # candidate index of each known update
    asked: FloatArray


def layer_name(view: View, layer: str) -> str:
    """Resolve a layer's name; `last` is the one nearest to the output."""
    names = [part.name for part in view.layout if part.name not in view.unrecorded]
    if layer == "last":
        return names[-1]
    if layer not in names:
        raise AttackError(f"the model has no layer '{layer}'{did_you_mean(layer, names)}")
    return layer


def labelled(view: View) -> IntArray:
    """The rows of the view's updates that the adversary's own clients sent."""
    shadows = np.flatnonzero(view.updates.shadow >= 0)
    if len(shadows) == 0:
        raise AttackError("no shadow client was selected in any round, so no labelled update exists; train more rounds")
    return shadows


def features(view: View, questions: Questions, layer: str, memory: int, prior: Prior | None = None) -> Features:
    """Read one layer of the updates that matter; nothing else is kept.

    With `prior`, a defence-aware attacker learns from raw updates where they identify better than defended ones.

    A layer that would take more than half of `memory` (MB), so that the attack itself has the other half, is
    sketched as it is read.
    """
    name, shadows = layer_name(view, layer), labelled(view)
    wanted = np.unique(np.concatenate([shadows, questions.updates.ravel()]))
    size = next(part.size for part in view.layout if part.name == name)
    # Twice: the rows that are gathered, and their division into known and asked.
    sketch = Sketch(size, fitting(memory, 2 * len(wanted)), rng_for(0, "sketch", name))
    table = stream_rows(view, name, wanted, lambda rows: unit(sketch(rows)), sketch.dims)
    known = table[np.searchsorted(wanted, shadows)]
    return Features(
        known=learn_from(view, prior, shadows, known, lambda rows: unit(sketch(rows[name]))),
        # In the open world the candidates after the last option are strangers to learn `unseen` from.
        who=np.minimum(view.updates.shadow[shadows], len(questions.options) - 1),
        asked=table[np.searchsorted(wanted, questions.updates)],
    )


def fitting(memory: int, rows: int) -> int:
    """How many numbers a row may have, for so many rows in half of the attack's memory."""
    dims = memory * 2**20 // 2 // 4 // max(1, rows)
    if dims < _FEWEST:
        raise AttackError(
            f"{memory} MB hold only {dims} values of each of {rows} updates, too few to tell users apart; "
            "raise memory ([audit] in the plan)"
        )
    return dims


def stream_rows(
    view: View, layer: str, wanted: IntArray, reduce: Callable[[FloatArray], FloatArray], dims: int
) -> FloatArray:
    """Stream a layer from disk and keep of each wanted row (in rising order) what `reduce` makes of it."""
    kept = np.empty((len(wanted), dims), dtype=np.float32)
    start = done = 0
    for block in view.updates.blocks(layer):
        stop = int(np.searchsorted(wanted, start + len(block)))
        if stop > done:
            kept[done:stop] = reduce(block[wanted[done:stop] - start])
        start, done = start + len(block), stop
    return kept


def unit(rows: FloatArray) -> FloatArray:
    """Scale each row to length one; a row of zeros stays as it is."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


def fill_missing_candidates(scores: FloatArray, classes: IntArray, options: int) -> FloatArray:
    """Give candidates without a labelled update the lowest score of each question.

    A shadow client may never have been selected; questions about its user must still be answered.
    """
    answers = np.repeat(scores.min(axis=1, keepdims=True), options, axis=1).astype(np.float32)
    answers[:, classes] = scores
    return answers
