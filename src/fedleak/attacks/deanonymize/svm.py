"""Re-identification with a linear support vector machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from sklearn.svm import LinearSVC

from fedleak.attacks.deanonymize.one_layer import OneLayer
from fedleak.attacks.features import features, spread
from fedleak.core import FloatArray
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["LinearSvm"]


@dataclass(frozen=True, kw_only=True)
class LinearSvm(OneLayer):
    """Separate each person's updates from everyone else's by a hyperplane (Orekondy et al., 2020, Table 3)."""

    name: ClassVar[str] = "reid-svm"
    summary: ClassVar[str] = "a linear classifier separates each person's updates from everyone else's"

    cost: Annotated[float, Meta(gt=0, description="price of an update on the wrong side (C)")] = 1.0

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> FloatArray:
        """Score every option by the signed distance to its hyperplane."""
        data = features(view, questions, self.layer)
        classes = np.unique(data.who)
        if len(classes) < 2:
            raise AttackError("reid-svm needs labelled updates of at least two people; train more rounds")
        machine = LinearSVC(C=self.cost, random_state=int(rng.integers(2**31)), max_iter=5000)
        machine.fit(data.known, data.who)
        scores = machine.decision_function(data.asked)
        if scores.ndim == 1:  # with two classes scikit-learn gives the distance to the one hyperplane only
            scores = np.stack([-scores, scores], axis=1)
        return spread(scores.astype(np.float32), classes, len(questions.options))
