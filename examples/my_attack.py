"""An attack of your own, in one file: what do the signs of an update give away?

Sending one bit per weight is a common way to save traffic, and is sometimes hoped to hide the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Signs"]


@dataclass(frozen=True, kw_only=True)
class Signs(SingleLayerAttack):
    """Compare the signs of an update with the average signs of each user's labelled updates."""

    name: ClassVar[str] = "reid-signs"
    summary: ClassVar[str] = "only the direction in which each weight moves is compared, not how far"

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by how many signs agree, the undecided ones counting less."""
        data = features(view, questions, self.layer, context.memory)
        users = np.unique(data.who)
        habits = np.stack([np.sign(data.known[data.who == user]).mean(axis=0) for user in users])
        return fill_missing_candidates(np.sign(data.asked) @ habits.T, users, len(questions.options))
