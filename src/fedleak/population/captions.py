"""Captions of images, by rule: text that describes an image without any of its pixels.

A stand-in. Orekondy et al. (2020, section 6.1.1) had no data set with images and words of the same users either, and
used a network to caption the prior images. These rules need no network: the class, and the slant, thickness and size
of the drawing, from moments of the image (Hu, 1962), each as one of five words. They assume bright strokes on a dark
background, as in handwriting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.population.text import PAD, encode

__all__ = ["describe", "vocabulary", "tokens", "words", "measures"]

# From least to most; which fifth of the images of its class an image is in decides the word.
_SLANT = ("leaning backward", "leaning left", "upright", "leaning right", "leaning forward")
_THICKNESS = ("hairline", "thin", "plain", "thick", "heavy")
_SIZE = ("tiny", "small", "middling", "large", "huge")
_FIFTHS = (0.2, 0.4, 0.6, 0.8)


def describe(images: npt.NDArray[np.float32], labels: IntArray) -> list[str]:
    """Describe each image (channel, height, width) relative to the others of its class.

    >>> rng = np.random.default_rng(0)
    >>> describe(rng.random((1, 1, 8, 8), dtype=np.float32), np.array([7]))
    ['a plain 7 , upright , middling']
    """
    columns = []
    for values, scale in zip(measures(images).T, (_SLANT, _THICKNESS, _SIZE), strict=True):
        column = np.empty(len(images), dtype=np.int64)
        for label in np.unique(labels):
            mine = labels == label
            # Halfway between `below` and `not above`: images that are all alike are in the middle, not at one end.
            limits = np.quantile(values[mine], _FIFTHS)
            column[mine] = (
                np.searchsorted(limits, values[mine], "left") + np.searchsorted(limits, values[mine], "right")
            ) // 2
        columns.append([scale[level] for level in column])
    return [
        f"a {thick} {label} , {slant} , {size}"
        for slant, thick, size, label in zip(*columns, labels.tolist(), strict=True)
    ]


def measures(images: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Slant (positive: the top leans to the right), width of the strokes and size of each image, in pixels."""
    ink = images.mean(axis=1, dtype=np.float64)
    mass = np.maximum(ink.sum(axis=(1, 2)), 1e-9)
    y, x = np.mgrid[: ink.shape[1], : ink.shape[2]]

    def mean(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        total: npt.NDArray[np.float64] = (ink * values).sum(axis=(1, 2)) / mass
        return total

    right = x[None] - mean(x[None])[:, None, None]
    up = mean(y[None])[:, None, None] - y[None]
    across, along, both = mean(right**2), mean(up**2), mean(right * up)
    # A stroke's outline is twice as long as the stroke, so its area is the outline's length times half its width.
    outline = np.abs(np.diff(ink, axis=1)).sum(axis=(1, 2)) + np.abs(np.diff(ink, axis=2)).sum(axis=(1, 2))
    return np.stack(
        [both / np.maximum(along, 1e-9), 2 * mass / np.maximum(outline, 1e-9), np.sqrt(across + along)], axis=1
    )


def vocabulary(classes: int) -> tuple[str, ...]:
    """Every word that a caption can hold; the first two stand for padding and for words that cannot occur."""
    scales = " ".join((*_SLANT, *_THICKNESS, *_SIZE)).split()
    return ("<pad>", "<unknown>", "a", ",", *dict.fromkeys(scales), *map(str, range(classes)))


def tokens(captions: Sequence[str], classes: int) -> IntArray:
    """Captions as rows of ids into the vocabulary."""
    split = [caption.split() for caption in captions]
    return encode(split, vocabulary(classes), max(map(len, split), default=0))


def words(rows: IntArray, classes: int) -> list[str]:
    """Decode rows of ids into captions."""
    known = vocabulary(classes)
    return [" ".join(known[token] for token in row if token != PAD) for row in rows.tolist()]
