"""Matching by the cosine similarity of two updates: a baseline without training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.match.pairs import OnPairs, asked_pairs
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Cosine"]

_CHUNK = 256  # pairs at a time: an update is in many pairs, and all of them side by side would fill the memory


@dataclass(frozen=True, kw_only=True)
class Cosine(OnPairs):
    """Compare two updates by cosine similarity; an attack that does no better has learnt nothing about users."""

    name: ClassVar[str] = "match-cosine"
    summary: ClassVar[str] = "Matches two updates by cosine similarity, without training."

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair by its cosine."""
        rows, index = asked_pairs(view, questions, self.layer)
        cosines = np.empty((len(index), 1), dtype=np.float32)
        for start in range(0, len(index), _CHUNK):
            first, second = rows[index[start : start + _CHUNK].T]
            cosines[start : start + _CHUNK, 0] = np.einsum("qd,qd->q", first, second)
        return cosines
