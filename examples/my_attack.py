"""An attack of your own, in one file: what do the signs of an update reveal?

Sending one bit per weight is a common way to save traffic, and is sometimes expected to hide the sender.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak import AttackContext, Capability, Observation, Predictions, Prior, Questions, Task, View

__all__ = ["Signs"]


@dataclass(frozen=True, kw_only=True)
class Signs:
    """Compare the signs of an update with the average signs of each user's labelled updates."""

    name: ClassVar[str] = "reid-signs"
    summary: ClassVar[str] = "Compares only the signs of updates, not their magnitudes."
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Score every option by the number of signs that agree, weighted by how consistent they are."""
        signs = np.sign(view.updates.layer(view.layout[-1].name))  # of the last layer
        # Shadow clients train on the prior data of each user, so the adversary can label their updates.
        sender = view.updates.shadow  # -1: an anonymous client
        habits = np.zeros((len(questions.options), signs.shape[1]), dtype=np.float32)
        for user in range(len(questions.options)):
            if (sender == user).any():
                habits[user] = signs[sender == user].mean(axis=0)
        return signs[questions.updates] @ habits.T
