"""Attribute inference with a small neural network, alone or together with identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.attribute.labels import classes, values
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates, labelled
from fedleak.attacks.network import Network, fit
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["AttributeMlp", "AttributeJoint"]


@dataclass(frozen=True, kw_only=True)
class AttributeMlp(Network, SingleLayerAttack):
    """Train the re-identification network on an attribute instead (Orekondy et al., 2020, Table 4, single task)."""

    name: ClassVar[str] = "attribute-mlp"
    summary: ClassVar[str] = "Trains a multilayer perceptron (MLP) on labelled updates to predict the sender's group."
    game: ClassVar[str] = "attribute"
    joint: ClassVar[bool] = False

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every value by the network's probability."""
        data = features(view, questions, self.layer, context.memory, prior)
        who = view.updates.shadow[labelled(view)]
        present, target = classes(values(questions, who))
        identity = np.unique(who, return_inverse=True)[1]
        scores, *_ = fit(data.known, [target, identity] if self.joint else [target], self, context.rng)(data.asked)
        return fill_missing_candidates(scores, present, len(questions.options))


@dataclass(frozen=True, kw_only=True)
class AttributeJoint(AttributeMlp):
    """Learn attribute and identity jointly, one head each (Orekondy et al., 2020, Figure 3d and Table 4, multi-task).

    What tells users apart also tells groups of them apart, so each task helps the other to a better representation.
    """

    name: ClassVar[str] = "attribute-joint"
    summary: ClassVar[str] = (
        "Trains one neural network to predict users and their groups jointly (multi-task learning)."
    )
    joint: ClassVar[bool] = True
