"""The words that a client used (bag of words): the rows of an embedding that its update changed.

A word that is not on the client leaves its row unchanged, to the last bit. Comparing that with the words of each user's
prior needs no training. How informative it is depends on the amount of text, so it is one source of evidence among
others. As a client has the same words in every round, it also links the updates of a client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.attacks.features import stream_rows
from fedleak.attacks.shadow import Halves
from fedleak.core import FloatArray, IntArray, Layer, Layout
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Words", "words_of", "word_layer", "moved", "counts", "likelihood"]

Flags = npt.NDArray[np.bool_]

_FULL = 0.98  # where nearly every row moves (noise, weight decay), nothing can be read off


@dataclass(frozen=True, slots=True)
class Words:
    """Which words clients used, and how often users did before."""

    known: Flags  # (known updates, words)
    asked: Flags  # (asked updates, words)
    users: FloatArray  # (users, words)
    halves: Mapping[int, FloatArray]  # the same in each half of everyone's data, see shadow.Retrained
    shown: Mapping[int, FloatArray]  # what a client with such a half would use: more words, if a defence mixes them in


def words_of(
    view: View, prior: Prior, known: IntArray, asked: IntArray, divided: Halves, defended: Halves | None
) -> Words | None:
    """Read words off updates and off the prior; None where the model does not show them."""
    layer = word_layer(view.layout, prior.examples)
    if layer is None or (used := moved(view, layer, asked)) is None or (own := moved(view, layer, known)) is None:
        return None
    extent = layer.tensors[0][1][0]
    by_half = _by_half(divided, extent)
    shown = by_half if defended is None else _by_half(defended, extent)
    return Words(own, used, np.stack([counts(examples, extent) for examples in prior.examples]), by_half, shown)


def _by_half(divided: Halves, extent: int) -> dict[int, FloatArray]:
    return {
        2 * s + side: np.stack([counts(cuts[s][side], extent) for cuts in divided])
        for s in range(len(divided[0]))
        for side in range(2)
    }


def word_layer(layout: Layout, examples: Sequence[Examples]) -> Layer | None:
    """The first layer with one row per word, if the model reads words and has one.

    The embedding of positions in a model of the user's own may come before it; it has too few rows.
    """
    if not np.issubdtype(examples[0].x.dtype, np.integer):
        return None
    highest = max(int(one.x.max(initial=0)) for one in examples)
    tables = [layer for layer in layout if len(layer.tensors) == 1 and len(layer.tensors[0][1]) == 2]
    return next((layer for layer in tables if layer.tensors[0][1][0] > highest), None)


def moved(view: View, layer: Layer, wanted: IntArray) -> Flags | None:
    """(wanted, words): which rows each of these updates (in rising order) moved; None where nearly all did."""
    words, width = layer.tensors[0][1]
    found = stream_rows(
        view,
        layer.name,
        wanted,
        lambda rows: np.asarray(rows.reshape(len(rows), words, width).any(axis=2), dtype=np.float32),
        words,
    )
    flags: Flags = found > 0
    return None if flags.mean() > _FULL else flags


def counts(examples: Examples, words: int) -> FloatArray:
    """How often each word is read by the model; 0 pads."""
    tokens = examples.x[:, :-1] if examples.y is None else examples.x  # the last word is only predicted
    found = np.bincount(tokens[tokens > 0].ravel().astype(np.int64), minlength=words)[:words]
    return found.astype(np.float32)


def likelihood(used: Flags, known: FloatArray) -> FloatArray:
    """(clients, users): the mean log-probability, over words, of just these words being used.

    Each of as many words as the prior has is drawn from the user's frequencies, which are mixed half and half with
    everyone's: nobody has used all of their words before.
    """
    total = known.sum(axis=1, keepdims=True)
    everyone = (known.sum(axis=0) + 0.5) / (known.sum() + 0.5 * known.shape[1])
    share = 0.5 * known / np.maximum(total, 1) + 0.5 * everyone
    absent = total * np.log1p(-np.minimum(share, 1 - 1e-6))  # log of the probability that a word never comes up
    absent = np.minimum(absent, -1e-6)
    present = np.log(-np.expm1(absent))
    return np.asarray((used @ present.T + (~used) @ absent.T) / known.shape[1], dtype=np.float32)
