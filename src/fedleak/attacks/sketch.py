"""Wide layers in few numbers: a seeded sketch that keeps angles between updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedleak.core import FloatArray
from fedleak.lazy import scipy

__all__ = ["Sketch"]


class Sketch:
    """Adds up each column, with a random sign, in one of a few places (CountSketch; Charikar et al., 2002).

    Inner products survive in expectation, with an error of about 1/sqrt(dims) of the lengths (Weinberger et al.,
    2009), so what compares updates by angle can work on the sketch. One addition a number: it costs no more than
    reading the layer. A layer that is narrow enough already passes through unchanged.

    >>> Sketch(3, 8, np.random.default_rng(0))(np.eye(3, dtype=np.float32)).shape
    (3, 3)
    >>> Sketch(1000, 8, np.random.default_rng(0))(np.ones((2, 1000), dtype=np.float32)).shape
    (2, 8)
    """

    def __init__(self, width: int, dims: int, rng: np.random.Generator) -> None:
        self.dims = min(width, dims)
        self._matrix: Any = None
        if dims < width:
            signs = np.where(rng.random(width) < 0.5, -1, 1).astype(np.float32)
            places = rng.integers(0, dims, width)
            self._matrix = scipy.sparse.csr_matrix((signs, (np.arange(width), places)), shape=(width, dims))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Sketch each row."""
        return rows if self._matrix is None else np.asarray(rows @ self._matrix, dtype=np.float32)
