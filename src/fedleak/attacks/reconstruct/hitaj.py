"""The GAN of a malicious client (Hitaj, Ateniese and Perez-Cruz, CCS 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.shadow import model_of
from fedleak.attacks.work import fixed
from fedleak.core import Capability, Observation, Task
from fedleak.errors import AttackError
from fedleak.federation.gan_client import ClassGan
from fedleak.games.game import Predictions, Questions
from fedleak.games.reconstruct import ImageQuestions
from fedleak.plan.configure import configure
from fedleak.plan.plan import JoinPlan
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["HitajGan"]


@dataclass(frozen=True, kw_only=True)
class HitajGan:
    """Predict what the generator of the adversary's own client has learnt to draw.

    It is trained during the run, against every shared model in turn; here that is repeated from the models that the
    client kept. It sees no updates, so it draws the classes of all clients and predicts the same for every victim.
    """

    name: ClassVar[str] = "hitaj-gan"
    summary: ClassVar[str] = (
        "Joins the federation with generated examples and trains a GAN against the shared model to draw each class "
        "(Hitaj et al.)."
    )
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.JOIN
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = fixed

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Train the generator once more, and draw."""
        assert isinstance(questions, ImageQuestions)
        told = dict(view.joined)
        seed = int(told.pop("seed"))
        plan = configure(JoinPlan, {k: v for k, v in told.items() if k not in ("power", "client")}, "trace [join]")
        if int(view.settings["outputs"]) != questions.classes + 1:
            raise AttackError("attack 'hitaj-gan': the shared model has no output for a class that nobody has")
        gan = ClassGan(model_of(view), questions.shape, questions.classes, plan, seed)
        for number in range(1, view.rounds + 1):
            gan.learn(number, view.snapshot(number - 1))
        drawn = gan.draw(questions.samples, context.rng).x
        return np.broadcast_to(drawn, (len(questions), *drawn.shape)).copy()
