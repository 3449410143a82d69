"""An attack of your own, in one file: what do the signs of an update reveal?

Sending one bit per weight is a common way to save traffic, and is sometimes expected to hide the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak import (
    AttackContext,
    Predictions,
    Prior,
    Questions,
    SingleLayerAttack,
    View,
    features,
    fill_missing_candidates,
)

__all__ = ["Signs"]


@dataclass(frozen=True, kw_only=True)
class Signs(SingleLayerAttack):
    """Compare the signs of an update with the average signs of each user's labelled updates."""

    name: ClassVar[str] = "reid-signs"
    summary: ClassVar[str] = "Compares only the signs of an update with each user's mean signs (nearest centroid)."

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Score every option by how many signs agree, the undecided ones counting less."""
        # Labelled updates (of shadow clients, on the data that the adversary knows of each user) and those asked about.
        data = features(view, questions, self.layer, context.memory)
        users = np.unique(data.who)
        habits = np.stack([np.sign(data.known[data.who == user]).mean(axis=0) for user in users])
        # A user whose shadow client was never selected has no labelled update, and must be answered all the same.
        return fill_missing_candidates(np.sign(data.asked) @ habits.T, users, len(questions.options))
