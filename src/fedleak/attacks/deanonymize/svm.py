"""Re-identification with a linear support vector machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates
from fedleak.core import FloatArray
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["LinearSvm", "turned"]


@dataclass(frozen=True, kw_only=True)
class LinearSvm(SingleLayerAttack):
    """Separate each user's updates from everyone else's by a hyperplane (Orekondy et al., 2020, Table 3)."""

    name: ClassVar[str] = "reid-svm"
    summary: ClassVar[str] = "Trains a linear SVM, one user against the rest, to name the sender of each update."

    cost: Annotated[float, Meta(gt=0, description="regularisation parameter C")] = 1.0

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by the signed distance to its hyperplane."""
        data = features(view, questions, self.layer, context.memory, prior)
        classes = np.unique(data.who)
        if len(classes) < 2:
            raise AttackError("reid-svm needs labelled updates of at least two users; train more rounds")
        from sklearn.svm import LinearSVC

        machine = LinearSVC(C=self.cost, random_state=int(context.rng.integers(2**31)), max_iter=5000)
        known, turn = turned(data.known)
        machine.fit(known, data.who)
        scores = machine.decision_function(turn(data.asked))
        if scores.ndim == 1:  # with two classes scikit-learn gives the distance to the one hyperplane only
            scores = np.stack([-scores, scores], axis=1)
        return fill_missing_candidates(scores.astype(np.float32), classes, len(questions.options))


def turned(known: FloatArray) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
    """Turn rows into a space with as many columns as there are rows, where that is fewer.

    A hyperplane that separates rows lies in the space that they span, and turning changes neither lengths nor angles
    in it, so the machine is the same and as many times cheaper.
    """
    if len(known) >= known.shape[1]:
        return known, lambda rows: rows
    values, vectors = np.linalg.eigh(known.astype(np.float64) @ known.T.astype(np.float64))
    kept = values > values[-1] * 1e-10
    basis = (known.T @ (vectors[:, kept] / np.sqrt(values[kept]))).astype(np.float32)  # (columns, directions)
    return known @ basis, lambda rows: rows @ basis
