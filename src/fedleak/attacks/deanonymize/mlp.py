"""Re-identification with a small neural network, the papers' main attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates
from fedleak.attacks.network import Network, fit
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ReidMlp"]


@dataclass(frozen=True, kw_only=True)
class ReidMlp(Network, SingleLayerAttack):
    """Train a network with one hidden layer on the shadow clients' updates (Orekondy et al., 2020, section 4.3)."""

    name: ClassVar[str] = "reid-mlp"
    summary: ClassVar[str] = (
        "Trains a multilayer perceptron (MLP) on labelled updates to name the sender of each update."
    )

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by the network's probability."""
        data = features(view, questions, self.layer, context.memory, prior)
        classes, target = np.unique(data.who, return_inverse=True)
        (scores,) = fit(data.known, [target], self, context.rng)(data.asked)
        return fill_missing_candidates(scores, classes, len(questions.options))
