"""Re-identification by nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["NearestNeighbours"]


@dataclass(frozen=True, kw_only=True)
class NearestNeighbours(SingleLayerAttack):
    """Name the sender of an update by a vote of its nearest labelled updates (Orekondy et al., 2020, Table 3)."""

    name: ClassVar[str] = "reid-knn"
    summary: ClassVar[str] = (
        "Names the sender of an update by a vote of its k nearest labelled updates (k-nearest neighbours)."
    )

    k: Annotated[int, Meta(ge=1, description="how many neighbours vote")] = 10

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by its share of the votes."""
        data = features(view, questions, self.layer, context.memory, prior)
        k = min(self.k, len(data.known))
        votes = np.zeros((len(data.asked), len(questions.options)), dtype=np.float32)
        # Rows have length one, so the largest product is the smallest Euclidean distance.
        near = np.argpartition(-(data.asked @ data.known.T), k - 1, axis=1)[:, :k]
        np.add.at(votes, (np.arange(len(votes))[:, None], data.who[near]), 1 / k)
        return votes
