"""What of a model looks like an imprint block: many neurons that measure the same thing with graded thresholds.

Training never makes such a layer, and neither does any usual initialisation: rows of weights point in different
directions. A server that hides the thresholds in another way, or uses other ways to make a model leak, is not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Suspicion", "suspicions"]

_LEAST = 16  # rows that must agree, and inputs that they must have: below, agreement is no accident to speak of
_PARALLEL = 0.995  # cosine of two rows that measure the same
_GRADED = 0.9  # share of them whose thresholds differ
_TRIED = 64  # rows, evenly over the layer, that others are compared with
_ALIKE = 1e-2  # relative spread of the weights that the next layer gives them
_CHUNK = 1 << 22  # numbers that are converted at once

Values = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A layer that looks like the bins of an imprint block."""

    tensor: str
    rows: int  # of how many neurons it has
    parallel: int  # how many measure the same, with different thresholds
    weighed_alike: str  # a tensor that weighs all of them alike; empty if there is none

    def __str__(self) -> str:
        after = f"; '{self.weighed_alike}' weighs all of them alike" if self.weighed_alike else ""
        return (
            f"'{self.tensor}': {self.parallel:,} of {self.rows:,} neurons measure the same thing with graded "
            f"thresholds{after}. Their gradients hold single examples (imprint block; Fowl et al., 2022)"
        )


def suspicions(tensors: Mapping[str, Values]) -> list[Suspicion]:
    """The layers of a model, given as named tensors, that look like an imprint block."""
    found = []
    for name, values in tensors.items():
        if values.ndim < 2 or len(values) < _LEAST or values[0].size < _LEAST:
            continue
        rows = values.reshape(len(values), -1)
        bias = tensors.get(f"{name.rpartition('.')[0]}.bias")
        agreeing = _agreeing(rows)
        if len(agreeing) >= _LEAST and _graded(rows[agreeing], None if bias is None else bias.ravel()[agreeing]):
            found.append(Suspicion(name, len(rows), len(agreeing), _weighing(tensors, name, agreeing, len(rows))))
    return found


def _agreeing(rows: Values) -> npt.NDArray[np.int64]:
    """The largest group of rows that are parallel to one of them."""
    tried = np.unique(np.linspace(0, len(rows) - 1, min(_TRIED, len(rows))).astype(np.int64))
    seeds = _unit(rows[tried])
    counts = np.zeros(len(tried), dtype=np.int64)
    step = max(1, _CHUNK // rows.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(rows), step)]
    for part in parts:
        counts += (np.abs(_unit(rows[part]) @ seeds.T) > _PARALLEL).sum(axis=0)
    best = seeds[int(counts.argmax())]
    return np.flatnonzero(np.concatenate([np.abs(_unit(rows[part]) @ best) > _PARALLEL for part in parts]))


def _unit(rows: Values) -> npt.NDArray[np.float32]:
    """Rows of length one; rows of zeros, or that hold anything but numbers, stay zeros."""
    whole = np.nan_to_num(rows.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    return np.asarray(whole / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _graded(rows: Values, bias: Values | None) -> bool:
    """Whether parallel rows have different thresholds: in their biases, or in a weight on a constant input."""
    whole = np.nan_to_num(rows.astype(np.float64))
    parts = whole if bias is None else np.concatenate([whole, np.nan_to_num(bias.astype(np.float64))[:, None]], axis=1)
    # Thresholds are compared at equal gain, so that copies of one row at different scales are no grades.
    scaled = parts / np.maximum(np.abs(whole).max(axis=1, keepdims=True), 1e-30)
    signs = np.sign(scaled[np.arange(len(scaled)), np.abs(whole).argmax(axis=1)])
    scaled *= signs[:, None]
    middle = np.median(scaled, axis=0)
    apart = np.abs(scaled - middle).max(axis=0)
    grades = scaled[:, int(apart.argmax())]
    steps = np.unique(np.round(grades / max(float(np.ptp(grades)), 1e-30) * 1e7))
    return bool(np.ptp(grades) > 1e-6 * max(1.0, float(np.abs(grades).max())) and len(steps) >= _GRADED * len(grades))


def _weighing(tensors: Mapping[str, Values], bins: str, agreeing: npt.NDArray[np.int64], rows: int) -> str:
    for name, values in tensors.items():
        if name == bins or values.ndim < 2 or values.shape[-1] != rows:
            continue
        weights = np.abs(values.reshape(-1, rows)[:, agreeing].astype(np.float64))
        if weights.size and weights.mean() > 0 and weights.std() < _ALIKE * weights.mean():
            return name
    return ""
