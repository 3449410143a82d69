"""Made-up patients of twelve clinics, each with its own mix of classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

CLINICS, CLASSES, INPUTS = 12, 4, 10
Arrays = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


def clinic(number: int, part: str, examples: int = 32) -> Arrays:
    """Some examples of a clinic: what it trains on, or what somebody else knows of it."""
    own = np.random.default_rng([7, number])
    mix, shift = own.dirichlet(np.full(CLASSES, 0.6)), 0.6 * own.normal(size=INPUTS)
    rng = np.random.default_rng([7, number, len(part)])
    return _draw(mix, shift, examples, rng)


def others(examples: int = 400) -> Arrays:
    """Examples of nobody who takes part."""
    return _draw(np.full(CLASSES, 1 / CLASSES), np.zeros(INPUTS), examples, np.random.default_rng(8))


def _draw(mix: npt.NDArray[np.float64], shift: npt.NDArray[np.float64], count: int, rng: np.random.Generator) -> Arrays:
    centres = np.random.default_rng(9).normal(size=(CLASSES, INPUTS))
    y = rng.choice(CLASSES, count, p=mix)
    return (centres[y] + shift + 0.7 * rng.normal(size=(count, INPUTS))).astype(np.float32), y
