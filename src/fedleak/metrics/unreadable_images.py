"""Images that show nothing, from which a judge learns to recognise unreadable images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray
from fedleak.lazy import ndimage

__all__ = ["garbage"]

Image: TypeAlias = npt.NDArray[np.floating[Any]]  # (channels, height, width)

_KINDS = (0.1,) * 6 + (0.2,) * 2  # shares of the makers below: more of what is nearest to images


def garbage(real: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Images that show nothing, made of images so that brightness and contrast do not reveal them.

    Noise, smooth noise, shuffled pixels, thick blur, blends of several images, blank ones; and what a generator draws
    that has learnt strokes but no shapes: pieces of several images put together, and images bent out of shape.
    """
    chosen = real[rng.integers(len(real), size=(count, 4))]
    makers = (_noise, _clouds, _shuffled, _blurred, _blended, _blank, _pieces, _bent)
    kinds = rng.choice(len(makers), size=count, p=_KINDS).tolist()
    found = np.empty((count, *real.shape[1:]), dtype=np.float32)
    for place, (some, kind) in enumerate(zip(chosen, kinds, strict=True)):
        made = makers[kind](some, rng)
        found[place] = np.clip(made + rng.normal(0, 0.03, made.shape) * (rng.random() < 0.5), 0, 1)
    return found


def _noise(some: FloatArray, rng: np.random.Generator) -> Image:
    made: Image = rng.random(some[0].shape) ** rng.uniform(0.5, 4)
    return made


def _clouds(some: FloatArray, rng: np.random.Generator) -> Image:
    coarse = rng.uniform(1, min(some.shape[2:]) / 8)
    smooth = ndimage.gaussian_filter(rng.normal(size=some[0].shape), (0, coarse, coarse))
    made = (smooth - smooth.min()) / max(float(np.ptp(smooth)), 1e-6)
    return np.where(made > rng.uniform(0.5, 0.8), made, 0) if rng.random() < 0.5 else made


def _shuffled(some: FloatArray, rng: np.random.Generator) -> Image:
    return rng.permuted(some[0].reshape(len(some[0]), -1), axis=1).reshape(some[0].shape)


def _blurred(some: FloatArray, rng: np.random.Generator) -> Image:
    side = min(some.shape[2:])
    blur = rng.uniform(side / 9, side / 4)
    made = ndimage.gaussian_filter(some[0], (0, blur, blur))
    dimmed: Image = made / max(float(made.max()), 1e-6) * rng.uniform(0.3, 1)
    return dimmed


def _blended(some: FloatArray, rng: np.random.Generator) -> Image:
    found: Image = some.mean(axis=0) if rng.random() < 0.5 else some[:3].max(axis=0)
    return found


def _blank(some: FloatArray, rng: np.random.Generator) -> Image:
    return np.full(some[0].shape, rng.random())


def _pieces(some: FloatArray, rng: np.random.Generator) -> Image:
    """Two to five pieces a side, each of another image and from nearly the same place."""
    height, width = some.shape[2:]
    count = int(rng.integers(2, 6))
    made = np.empty_like(some[0])
    rows, columns = (np.linspace(0, side, count + 1).astype(int) for side in (height, width))
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            moved = rng.integers(-height // 8, height // 8 + 1), rng.integers(-width // 8, width // 8 + 1)
            one = np.roll(some[rng.integers(len(some))], moved, (1, 2))
            made[:, top:bottom, left:right] = one[:, top:bottom, left:right]
    joined: Image = ndimage.gaussian_filter(made, (0, 0.6, 0.6))
    return joined


def _bent(some: FloatArray, rng: np.random.Generator) -> Image:
    """Every point moved, neighbours alike, by up to a third of the image."""
    size = some.shape[2:]
    smooth = rng.uniform(min(size) / 20, min(size) / 9)
    places = np.indices(size).astype(np.float64)
    for axis in range(2):
        moved = ndimage.gaussian_filter(rng.normal(size=size), smooth)
        places[axis] += moved / np.abs(moved).max() * rng.uniform(1 / 6, 1 / 3) * min(size)
    return np.stack([ndimage.map_coordinates(channel, places, order=1) for channel in some[0]])
