"""PCA of updates: coordinates along the principal components of the observed updates.

A random sketch spends its dimensions evenly on all directions of a layer. The updates of a run span only a few hundred,
so their principal components lose almost nothing with a tenth of the dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from fedleak.attacks.features import stream_rows, unit
from fedleak.attacks.sketch import Sketch
from fedleak.core import FloatArray, IntArray, Layout, rng_for
from fedleak.lazy import scipy
from fedleak.views.view import View

__all__ = ["Lens", "focus", "directions", "widths"]

_SAMPLE = 1024  # rows that directions are found from; more of them cost much and change little


@dataclass(frozen=True, slots=True)
class Lens:
    """The directions of every layer along which updates are linked, and among them those by which they are named.

    Updates are linked along directions of known and anonymous ones alike, since where to stop joining is learnt on the
    known ones. They are named along directions of the anonymous ones alone: those of the known ones show what a
    user's prior data has in common, and its halves would name each other far too well to learn anything from.
    """

    sketches: Mapping[str, Sketch]
    bases: Mapping[str, FloatArray]  # (numbers of the sketch, directions)
    turns: Mapping[str, FloatArray]  # (directions to link by, directions to name by)

    def __call__(self, rows: Mapping[str, FloatArray]) -> FloatArray:
        """Measure whole updates, (updates, directions of all layers)."""
        measured = [unit(sketch(rows[name])) @ self.bases[name] for name, sketch in self.sketches.items()]
        return np.concatenate(measured, axis=1)

    def to_name(self, measured: FloatArray) -> dict[str, FloatArray]:
        """What updates are named by, layer by layer, each scaled to length one."""
        return {name: unit(part @ self.turns[name]) for name, part in self._layers(measured)}

    def to_link(self, measured: FloatArray) -> FloatArray:
        """What updates are linked by: all layers, each scaled to length one."""
        return np.concatenate([unit(part) for _, part in self._layers(measured)], axis=1)

    def _layers(self, measured: FloatArray) -> Iterator[tuple[str, FloatArray]]:
        start = 0
        for name, basis in self.bases.items():
            yield name, measured[:, start : start + basis.shape[1]]
            start += basis.shape[1]


def focus(
    view: View, wanted: IntArray, anonymous: IntArray, dims: int, seed: int, memory: int
) -> tuple[Lens, FloatArray]:
    """Find the directions of the wanted updates, `anonymous` of which are; also these updates, measured along them.

    A layer of these updates, a copy of it, and the directions of all layers take half of `memory` (MB); a layer
    that is too wide for that is sketched as it is read.
    """
    width = memory * 2**20 // 2 // 4 // (2 * len(wanted) + dims)
    sketches, bases, turns, measured = {}, {}, {}, []
    for layer in view.layout:
        sketch = Sketch(layer.size, width, rng_for(seed, "sketch", layer.name))
        table = _layer(view, layer.name, wanted, sketch)
        basis = directions(table, widths(view.layout, dims)[layer.name])
        seen = table @ basis
        sketches[layer.name], bases[layer.name] = sketch, basis
        turns[layer.name] = directions(seen[anonymous], basis.shape[1])
        measured.append(seen)
    return Lens(sketches, bases, turns), np.concatenate(measured, axis=1)


def _layer(view: View, name: str, wanted: IntArray, sketch: Sketch) -> FloatArray:
    return stream_rows(view, name, wanted, lambda rows: unit(sketch(rows)), sketch.dims)


def directions(rows: FloatArray, most: int) -> FloatArray:
    """The principal directions of rows, as columns; as many as there are, but at most `most`."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).round().astype(np.int64))]
    values, vectors = scipy.linalg.eigh((some @ some.T).astype(np.float64), overwrite_a=True)
    values, vectors = np.maximum(values[::-1], 1e-30), vectors[:, ::-1]
    count = min(most, int((values >= 1e-7 * values[0]).sum()))
    return np.asarray(some.T @ (vectors[:, :count] / np.sqrt(values[:count])).astype(np.float32), dtype=np.float32)


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
