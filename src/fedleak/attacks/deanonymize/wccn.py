"""Whiten within-user variation: within-class covariance normalisation (WCCN).

Speaker recognition compares recordings this way (WCCN; Hatch, Kajarekar and Stolcke, 2006): directions in which
updates of one and the same user differ are shrunk, so that an angle counts what sets users apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.attacks.features import unit
from fedleak.core import FloatArray, IntArray
from fedleak.lazy import scipy

__all__ = ["WithinUserVariation", "Whitening", "variation", "templates"]


@dataclass(frozen=True, slots=True)
class Whitening:
    """A linear map under which updates of one user vary equally in every direction."""

    centre: FloatArray
    root: FloatArray  # of the covariance: a lower triangle

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Map rows and scale them to length one."""
        mapped = scipy.linalg.solve_triangular(
            self.root, (rows - self.centre).T, lower=True, overwrite_b=True, check_finite=False
        )
        return unit(np.ascontiguousarray(mapped.T))


@dataclass(frozen=True, slots=True)
class WithinUserVariation:
    """How updates vary within users."""

    centre: FloatArray
    within: FloatArray  # covariance

    def whitening(self, shrink: float) -> Whitening:
        """Whiten it; the less, the further the covariance is shrunk towards equal in all directions.

        With fewer users than numbers the estimate alone would be singular, and noisy long before (Ledoit and Wolf,
        2004).
        """
        mean = float(np.trace(self.within)) / len(self.within)
        drawn = self.within.copy()
        drawn[np.diag_indices(len(drawn))] += shrink * mean if mean > 0 else 1.0
        return Whitening(self.centre, np.linalg.cholesky(drawn))


def variation(rows: FloatArray, who: npt.NDArray[np.int64]) -> WithinUserVariation:
    """Estimate the covariance within users."""
    _, place = np.unique(who, return_inverse=True)
    residual = rows - _means(rows, place)[place]
    return WithinUserVariation(rows.mean(axis=0), np.asarray(residual.T @ residual / len(rows), dtype=np.float32))


def templates(rows: FloatArray, who: IntArray) -> tuple[FloatArray, IntArray]:
    """The mean direction of every user of whom there are rows, and who these are."""
    found, place = np.unique(who, return_inverse=True)
    return unit(_means(rows, place)), found


def _means(rows: FloatArray, place: IntArray) -> FloatArray:
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    counts = np.diff(starts, append=len(place))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0) / counts[:, None], dtype=np.float32)
