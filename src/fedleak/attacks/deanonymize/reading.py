"""What the strong attack works on: every update that it may use, reduced to rows that fit in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedleak.attacks.deanonymize.words import counts, moved, word_layer
from fedleak.attacks.features import gather, labelled, unit
from fedleak.attacks.shadow import halves, rebuilt, retrain
from fedleak.attacks.sketch import Sketch
from fedleak.core import FloatArray, IntArray, Layout, derive
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Read", "read", "widths"]

_FEWEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Updates as rows, all layers beside each other, each layer scaled to length one."""

    known: FloatArray  # of the adversary's devices in the federation
    known_who: IntArray
    known_round: IntArray
    asked: FloatArray
    train: FloatArray  # made by the server itself; where it cannot, the known ones once more
    who: IntArray
    part: IntArray  # which half of the person's data, see shadow.Retrained
    used: npt.NDArray[np.bool_] | None = None  # (asked, words)
    words: FloatArray = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # (people, words) counts
    half_words: Mapping[int, FloatArray] = field(default_factory=dict)  # by half


def read(view: View, prior: Prior, questions: Questions, snapshots: int, divisions: int, dims: int, seed: int) -> Read:
    """Stream what is on disk, and train what is not."""
    updates, shadows, asked = view.updates, labelled(view), questions.updates
    model = rebuilt(view) if snapshots else None
    made = 3 * len(prior.candidates) * min(snapshots, view.rounds) if model else 0
    share = widths(view.layout, min(dims, affordable(view.memory, made + len(shadows) + len(asked))))
    sketches = {
        layer.name: Sketch(layer.size, share[layer.name], derive(seed, "sketch", layer.name)) for layer in view.layout
    }

    def reduce(rows: Mapping[str, FloatArray]) -> FloatArray:
        return np.concatenate([unit(sketch(rows[name])) for name, sketch in sketches.items()], axis=1)

    wanted = np.unique(np.concatenate([shadows, asked]))
    table = np.concatenate(
        [
            gather(view, name, wanted, lambda rows, s=sketch: unit(s(rows)), sketch.dims)  # type: ignore[misc]
            for name, sketch in sketches.items()
        ],
        axis=1,
    )
    known, who = table[np.searchsorted(wanted, shadows)], updates.shadow[shadows]
    rows = table[np.searchsorted(wanted, asked)]
    if model is None:
        # The updates of a person in turns, as if each turn came from half of the data.
        order = np.argsort(who, kind="stable")
        part = np.empty(len(who), dtype=np.int64)
        part[order] = np.arange(len(who)) % 2
        return Read(
            known=known, known_who=who, known_round=updates.round[shadows], asked=rows, train=known, who=who, part=part
        )
    own = retrain(view, model, prior, snapshots, divisions, reduce, seed)
    layer = word_layer(view.layout, prior.examples[0])
    used = moved(view, layer, asked) if layer else None
    words: FloatArray = np.zeros((0, 0), np.float32)
    half_words: dict[int, FloatArray] = {}
    if layer and used is not None:
        extent = layer.tensors[0][1][0]
        words = np.stack([counts(examples, extent) for examples in prior.examples])
        for s in range(divisions):
            cut = [halves(examples, derive(seed, "halves", c, s)) for c, examples in enumerate(prior.examples)]
            for side in range(2):
                half_words[2 * s + side] = np.stack([counts(pair[side], extent) for pair in cut])
    return Read(
        known=known,
        known_who=who,
        known_round=updates.round[shadows],
        asked=rows,
        train=own.rows,
        who=own.who,
        part=own.part,
        used=used,
        words=words,
        half_words=half_words,
    )


def affordable(memory: int, rows: int) -> int:
    """How many numbers a row may have, with `memory` MB for the rows, two copies of them and three square matrices."""
    total = memory * 2**20 / 4
    # 3 rows d + 6 d^2 = total (a matrix in double precision counts twice)
    dims = int((-3 * rows + np.sqrt(9.0 * rows**2 + 24 * total)) / 12)
    if dims < _FEWEST:
        raise AttackError(
            f"{memory} MB hold only {dims} numbers of each of {rows} updates, too few to tell people apart; "
            "raise memory ([audit] in the plan), or lower snapshots of reid-strong"
        )
    return dims


def widths(layout: Layout, dims: int) -> dict[str, int]:
    """Share numbers out among the layers, evenly, except that no layer gets more than it has.

    >>> from fedleak.core import Layer
    >>> widths((Layer("narrow", (("bias", (5,)),)), Layer("wide", (("bias", (90,)),))), 65)
    {'narrow': 5, 'wide': 60}
    """
    share: dict[str, int] = {}
    left = dims
    for place, layer in enumerate(sorted(layout, key=lambda layer: layer.size)):
        share[layer.name] = max(1, min(layer.size, left // (len(layout) - place)))
        left -= share[layer.name]
    return {layer.name: share[layer.name] for layer in layout}
