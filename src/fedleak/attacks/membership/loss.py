"""Membership by the loss of the finished model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.signals import asked, confidence, log_probability
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["LossThreshold"]


@dataclass(frozen=True, kw_only=True)
class LossThreshold:
    """Take records with a low loss for members (Yeom et al., 2018): a baseline that needs nothing but the model."""

    name: ClassVar[str] = "membership-loss"
    summary: ClassVar[str] = "Takes records on which the finished model has a low loss for members."
    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.MODEL
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a record by its negative loss."""
        given = asked(questions)
        final = {name: values[None] for name, values in view.final.items()}
        sure = confidence(model_of(view), view.task, final, given.records)[0]
        return given.mean(log_probability(view.task, sure))
