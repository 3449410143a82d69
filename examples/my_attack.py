"""An attack of your own, in one file: what do the signs of an update give away?

Sending one bit per weight is a common way to save traffic, and is sometimes hoped to hide the sender.
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
    summary: ClassVar[str] = "only the direction in which each weight moves is compared, not how far"
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Score every option by how many signs agree, the undecided ones counting less."""
        signs = np.sign(view.updates.layer(view.layout[-1].name))  # of the layer nearest to the output
        # Clients of the adversary's own, on the data that it knows of each user, send updates that it can label.
        sender = view.updates.shadow  # -1: somebody else's client
        habits = np.zeros((len(questions.options), signs.shape[1]), dtype=np.float32)
        for user in range(len(questions.options)):
            if (sender == user).any():
                habits[user] = signs[sender == user].mean(axis=0)
        return signs[questions.updates] @ habits.T
