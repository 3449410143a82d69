"""A variant of mGAN-AI that runs in a minute on one core. It is not the paper's algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.mgan import Loop, reconstruct
from fedleak.attacks.reconstruct.representatives import Inversion
from fedleak.attacks.reconstruct.victim_context import Scene, spread
from fedleak.attacks.work import by_used_rounds
from fedleak.core import Capability, Observation, Task
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MganPrior"]


@dataclass(frozen=True, kw_only=True)
class MganPrior(Loop):
    """mGAN-AI's losses on a pretrained generator: a variant, not the algorithm of Song et al. (2020).

    Theirs trains a generator from scratch, which takes GPUs and many thousands of steps. Here a conditional VAE is
    trained on the auxiliary set, its decoder is frozen, and a small network in front of it learns from the
    discriminator's reality, category and identity which images to draw for the victim. Its images are always of the
    auxiliary set's kind, so it cannot show what no auxiliary image shows. `identity = false` leaves out the identity
    task, and with it everything that is specific to the victim.
    """

    name: ClassVar[str] = "mgan-prior"
    summary: ClassVar[str] = (
        "Trains a generator on public images, then adapts it to the client by comparing its updates with other "
        "clients' (a faster variant of mGAN-AI)."
    )
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "built-in"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = by_used_rounds

    identity: Annotated[bool, Meta(description="train with the identity task; false is the ablation")] = True
    early: Annotated[int, Meta(ge=1, description="first rounds whose representatives train the identity task")] = 4
    rounds: Annotated[
        int, Meta(ge=1, description="rounds of the victim, evenly over the run, whose models become discriminators")
    ] = 6
    iterations: Annotated[int, Meta(ge=1, description="steps of the search for representatives")] = 30
    pretraining: Annotated[int, Meta(ge=1, description="steps of the VAE on the auxiliary set")] = 1200
    steps: Annotated[int, Meta(ge=1, description="steps of the discriminator, and of the mapper, in a round")] = 60
    rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the mapper")] = 2e-3
    critic_rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the discriminator")] = 1e-3

    def scene(self, view: View, questions: Questions) -> Scene:
        """The run, with the links that this adversary sees."""
        return Scene(view, questions)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """One decoder for all, one mapper for each victim."""
        from fedleak.attacks.reconstruct.decoder import Mapped, learnt

        scene = self.scene(view, questions)
        given = scene.questions
        decoder = learnt(given.auxiliary, scene.shape, given.classes, self.pretraining, context.rng)
        first = sorted({n for victim in scene.victims for n in scene.rounds(victim)[: self.early]})
        portraits = (
            scene.portraits(Inversion(iterations=self.iterations), first, context.rng) if self.identity else None
        )
        claims = np.empty((len(questions), given.samples, *scene.shape), dtype=np.float32)
        for place, victim in enumerate(scene.victims):
            own = scene.rounds(victim)[self.early - 1 :] if self.identity else scene.rounds(victim)
            own = spread(own or scene.rounds(victim)[-1:], self.rounds)
            claims[place] = reconstruct(scene, victim, Mapped(decoder, context.rng), own, portraits, self, context.rng)
            context.progress((place + 1) / len(scene.victims))
        return claims
