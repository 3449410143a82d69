"""Re-identification by the nearest mean: the simplest attack that looks at the whole layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates, unit
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Centroid"]


@dataclass(frozen=True, kw_only=True)
class Centroid(SingleLayerAttack):
    """Compare an update with the mean labelled update of each user; nothing is trained."""

    name: ClassVar[str] = "reid-centroid"
    summary: ClassVar[str] = "Compares each update with every user's mean update (nearest centroid, cosine similarity)."

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by the cosine between the update and the option's mean."""
        data = features(view, questions, self.layer, context.memory, prior)
        classes = np.unique(data.who)
        means = np.stack([data.known[data.who == c].mean(axis=0) for c in classes])
        return fill_missing_candidates(data.asked @ unit(means).T, classes, len(questions.options))
