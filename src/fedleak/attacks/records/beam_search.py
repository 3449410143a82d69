"""Beam search for a client's record by what the model learns when that client takes part.

A search for the most likely records finds what a model has memorised. Long before that, the model gives a record a
little more probability after each round in which its user took part. How much more, over a whole run, is a weighted
sum of the record's log-probabilities under all snapshots, and so a sum over its characters: it can be computed prefix
by prefix like a probability, for every client separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedleak.attacks.records.scoring import Scores
from fedleak.core import IntArray
from fedleak.population.secret_formats import Format

__all__ = ["guided", "contrasts"]


def contrasts(there: IntArray, changes: Scores) -> Scores:
    """Weights of the rounds' changes whose sum estimates each client's contribution: (clients, rounds).

    A regression on the participation of all clients at once, so that no client is credited with the contribution of
    others in the same rounds. Rounds in which all records change much, such as the first ones, get less weight;
    `changes` (rounds, records) of some records show which. The same number of clients takes part in every round, so
    only differences between clients can be estimated: weights are relative to their mean.
    """
    scale = (changes - changes.mean(axis=1, keepdims=True)).std(axis=1)
    scale = np.maximum(scale, 1e-3 * (scale.max() or 1.0))
    design = np.column_stack([np.ones(len(there)), there]) / scale[:, None]
    slopes = np.linalg.pinv(design)[1:] / scale
    return np.asarray(slopes - slopes.mean(axis=0))


def guided(form: Format, score: Callable[[Sequence[str]], Scores], clients: int, width: int) -> tuple[str, ...]:
    """Records of the format that a beam of `width` prefixes leads to for any of the clients.

    `score` gives every client's score of some prefixes: (clients, texts), larger is better.
    """
    beams: list[dict[str, int]] = [{"": 0} for _ in range(clients)]  # beginning -> state of the format
    found: dict[str, None] = {}  # a set that keeps its order
    while any(beams):
        grown = [_grow(form, beam) for beam in beams]
        for ended, _ in grown:
            found.update(dict.fromkeys(ended))
        texts = sorted(set().union(*(onward for _, onward in grown)))
        if not texts:
            break
        table = score(texts)
        place = {text: i for i, text in enumerate(texts)}
        beams = []
        for row, (_, onward) in zip(table, grown, strict=True):
            best = sorted(onward, key=lambda text: -row[place[text]])[:width]
            beams.append({text: onward[text] for text in best})
    return tuple(found)


def _grow(form: Format, beam: dict[str, int]) -> tuple[list[str], dict[str, int]]:
    """Every way to go on by one choice, and the records that end on the way; what has no choice is written at once."""
    ended: list[str] = []
    onward: dict[str, int] = {}
    for text, state in beam.items():
        if state in form.finals:
            ended.append(text)
        for character, following in form.steps[state].items():
            longer, at = text + character, following
            while at not in form.finals and len(form.steps[at]) == 1:
                ((only, at),) = form.steps[at].items()
                longer += only
            onward[longer] = at
    return ended, onward
