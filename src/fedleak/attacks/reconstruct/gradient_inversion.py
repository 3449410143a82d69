"""Gradient inversion alone, ours and the paper's: how much can be reconstructed without a GAN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.representatives import Inversion, PaperInversion
from fedleak.attacks.reconstruct.victim_context import Scene
from fedleak.attacks.work import by_used_rounds
from fedleak.core import Capability, Observation, Task
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Representatives", "RepresentativesPaper"]


@dataclass(frozen=True, kw_only=True)
class Representatives(Inversion):
    """Predict the images whose gradients match the victim's update (Song et al., 2020, eq. 8).

    Each represents a class of the victim in one round; it is not one of its images. **Not the paper's setting**:
    updates are compared by their angle, which needs no gamma, and Adam searches (`RepresentativesPaper`).
    """

    name: ClassVar[str] = "representatives"
    summary: ClassVar[str] = "Finds images whose gradients match a client's update (gradient inversion)."
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = by_used_rounds

    rounds: Annotated[int, Meta(ge=1, description="first rounds of the victim that are used")] = 4

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Images of every class in every round; repeated where more are asked for."""
        scene = Scene(view, questions)
        claims = np.empty((len(questions), scene.questions.samples, *scene.shape), dtype=np.float32)
        first = sorted({number for victim in scene.victims for number in scene.rounds(victim)[: self.rounds]})
        portraits = scene.portraits(self, first, context.rng, scene.victims)
        for place, victim in enumerate(scene.victims):
            claims[place] = np.resize(portraits.of(victim)[0], claims.shape[1:])
        return claims


@dataclass(frozen=True, kw_only=True)
class RepresentativesPaper(PaperInversion, Representatives):
    """The same by eq. 8 as it is printed: the Euclidean distance of the updates, box-constrained L-BFGS."""

    name: ClassVar[str] = "representatives-paper"
    summary: ClassVar[str] = (
        "Finds images whose gradients match a client's update, by Euclidean distance and L-BFGS (as in the paper)."
    )
    needs: ClassVar[Observation] = Representatives.needs | Observation.SIZES
