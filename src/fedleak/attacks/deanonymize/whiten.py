"""Look away from what varies within a person: within-class covariance normalisation.

Speaker recognition compares recordings this way (WCCN; Hatch, Kajarekar and Stolcke, 2006): directions in which
updates of one and the same person differ are shrunk, so that an angle counts what sets people apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from fedleak.attacks.features import unit
from fedleak.core import FloatArray, IntArray

__all__ = ["Whitening", "whitening", "templates"]


@dataclass(frozen=True, slots=True)
class Whitening:
    """A linear map under which updates of one person vary equally in every direction."""

    centre: FloatArray
    matrix: FloatArray

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Map rows and scale them to length one."""
        return unit(np.asarray((rows - self.centre) @ self.matrix, dtype=np.float32))


def whitening(rows: FloatArray, who: npt.NDArray[np.int64], shrink: float) -> Whitening:
    """Estimate the covariance within people, drawn towards a multiple of the identity, and invert its root.

    With fewer rows than numbers the estimate alone would be singular, and noisy long before (Ledoit and Wolf, 2004).
    """
    centre = rows.mean(axis=0)
    _, place = np.unique(who, return_inverse=True)
    residual = rows - _means(rows, place)[place]
    within = (residual.T @ residual / len(rows)).astype(np.float64)
    scale = float(np.trace(within)) / len(within)
    within[np.diag_indices(len(within))] += shrink * scale if scale > 0 else 1.0
    root = scipy.linalg.cholesky(within, lower=True, overwrite_a=True, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dtrtri(root, lower=1, overwrite_c=1)
    return Whitening(centre, np.ascontiguousarray(inverse.T, dtype=np.float32))


def templates(rows: FloatArray, who: IntArray) -> tuple[FloatArray, IntArray]:
    """The mean direction of every person of whom there are rows, and who these are."""
    found, place = np.unique(who, return_inverse=True)
    return unit(_means(rows, place)), found


def _means(rows: FloatArray, place: IntArray) -> FloatArray:
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    counts = np.diff(starts, append=len(place))
    return np.asarray(np.add.reduceat(rows[order], starts, axis=0) / counts[:, None], dtype=np.float32)
