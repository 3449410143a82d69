"""Traits of an example, decided by a rule: how a digit is written, what a sentence is about.

A profile (Orekondy et al., 2020, section 5.2.2) is a set of examples picked by hand. These rules replace the manual
choice, twice: on other users' public examples, to make the set, and on every user's private data, to know who fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.population.captions import measures
from fedleak.population.population import Examples

__all__ = ["Trait", "Seen", "HANDWRITING", "topics", "share"]

Seen: TypeAlias = npt.NDArray[np.int8]
"""By example: 1 shows the trait, 0 does not, -1 could not show it."""

Trait: TypeAlias = Callable[[Examples], Seen]

_LEAN = 0.25  # pixels to the right for each pixel up; a quarter of MNIST's digits lean more
_BOLD = 2.34  # pixels; a quarter of MNIST's strokes are wider
_BAR = 1.5  # pixels by which a bar stands out on either side of the stem

# Few common words each, so that some of them are in a small vocabulary.
_TOPICS: Mapping[str, str] = {
    "school": "school class classes teacher college student students homework exam test study",
    "work": "work job office boss working company business meeting",
    "music": "music song songs band album guitar concert listening listen play",
    "family": "mom dad mother father sister brother parents kids family baby wife husband",
    "faith": "god church jesus lord pray christian bible faith",
}


def slanted(examples: Examples) -> Seen:
    """Digits that lean to the right."""
    return (measures(examples.x)[:, 0] > _LEAN).astype(np.int8)


def bold(examples: Examples) -> Seen:
    """Digits with thick strokes."""
    return (measures(examples.x)[:, 1] > _BOLD).astype(np.int8)


def barred_seven(examples: Examples) -> Seen:
    """Sevens with a bar across the stem, as most people in continental Europe write them."""
    seen = np.full(len(examples), -1, dtype=np.int8)
    if examples.y is not None:
        for row in np.flatnonzero(examples.y == 7):
            seen[row] = _bar(examples.x[row].mean(axis=0) > 0.4) >= _BAR
    return seen


def _bar(ink: npt.NDArray[np.bool_]) -> float:
    """How far ink stands out from the stem of a seven on both sides, at nearly the same height."""
    ink = ink[ink.any(axis=1)]
    middle = np.arange(int(0.4 * len(ink)), int(0.85 * len(ink)))
    if len(middle) < 5:
        return 0.0
    left = _out(middle, -ink.argmax(axis=1)[middle])
    right = _out(middle, -ink[:, ::-1].argmax(axis=1)[middle])
    near = np.abs(middle[:, None] - middle) <= 4  # bars are not level
    return float(np.where(near, np.minimum(left[:, None], right), 0).max())


def _out(rows: npt.NDArray[np.int64], edge: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """How far an edge stands out from a line through those of its points that do not stand out from a first line."""
    out = edge - _line(rows, edge, rows)
    stem = out <= np.median(out) + 0.5
    return edge - _line(rows[stem], edge[stem], rows)


def _line(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64], at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The least-squares line, by hand: numpy's polyfit takes a hundred times as long on twelve points."""
    dx = x - x.mean()
    slope = (dx @ y) / max(float(dx @ dx), 1e-9)
    return np.asarray(y.mean() + slope * (at - x.mean()))


HANDWRITING: Mapping[str, Trait] = {"slanted": slanted, "bold": bold, "barred-seven": barred_seven}


def topics(words: Sequence[str]) -> Mapping[str, Trait]:
    """Sentences that hold a word of a topic; topics without a word in the vocabulary are left out."""
    found = {topic: [i for i, word in enumerate(words) if word in about.split()] for topic, about in _TOPICS.items()}

    def trait(tokens: Sequence[int]) -> Trait:
        return lambda examples: np.asarray(np.isin(examples.x, tokens).any(axis=1), dtype=np.int8)

    return {topic: trait(tokens) for topic, tokens in found.items() if tokens}


def share(seen: Seen) -> float:
    """The share of the examples that show a trait, among those that could; 0 where none could.

    >>> share(np.array([1, 0, -1, 1, 1], dtype=np.int8))
    0.75
    """
    able = seen >= 0
    return float((seen == 1).sum() / max(1, able.sum()))
