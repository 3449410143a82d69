"""The client of a record, by the rounds in which the shared model learns the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.signals import confidence
from fedleak.attacks.membership.updates import Scores
from fedleak.attacks.records.candidate_search import presence
from fedleak.attacks.shadow import model_of
from fedleak.attacks.source.updates import asked
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.games.source import SourceQuestions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["SourceSelection", "explained"]


@dataclass(frozen=True, kw_only=True)
class SourceSelection:
    """Name the client whose participation explains when the shared model becomes surer of the record.

    What `eavesdrop` does for planted secrets (Yuan et al., 2021), for any record: the change of the model's confidence
    in every round is regressed on who took part (ridge). No update is needed, so secure aggregation does not hinder it.
    """

    name: ClassVar[str] = "source-selection"
    summary: ClassVar[str] = (
        "Names the client after whose rounds the shared model is surer of a record, by regression on who took part."
    )
    game: ClassVar[str] = "source"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.SELECTION
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    ridge: Annotated[float, Meta(gt=0, description="strength of the ridge penalty")] = 1.0

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a client by its coefficient."""
        return explained(view, asked(questions), self.ridge).astype(np.float32)


def explained(view: View, given: SourceQuestions, ridge: float) -> Scores:
    """How much each client's participation adds to the confidence in each record: (records, options)."""
    model = model_of(view)
    models = {
        layer.name: np.stack([view.snapshot(number)[layer.name] for number in range(view.rounds + 1)])
        for layer in view.layout
    }
    change = np.diff(confidence(model, view.task, models, given.records), axis=0)
    there = presence(view, given.options).astype(np.float64)
    # What a round does to all records, and how often a client takes part, say nothing about one record.
    change -= change.mean(axis=1, keepdims=True)
    change -= change.mean(axis=0)
    there -= there.mean(axis=0)
    weights = np.linalg.solve(there.T @ there + ridge * np.eye(there.shape[1]), there.T @ change)
    return np.asarray(weights.T)
