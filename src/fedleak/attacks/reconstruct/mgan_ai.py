"""mGAN-AI, passive (Algorithm 1) and active (section V-D) of Song et al. (2020): the paper's settings, and ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.mgan import Loop, reconstruct
from fedleak.attacks.reconstruct.representatives import Inversion, PaperInversion
from fedleak.attacks.reconstruct.victim_context import Portraits, Scene, spread, turns
from fedleak.attacks.work import by_used_rounds, fixed
from fedleak.core import Capability, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MganPassive", "MganPassivePaper", "MganActive", "MganActivePaper"]


@dataclass(frozen=True, kw_only=True)
class MganPassive(Loop):
    """Train a GAN from scratch while the federation trains, one pass of Algorithm 1 for every round.

    **Not the paper's setting** (`MganPassivePaper`) but within its text, for narrow networks and few steps: see there.
    The discriminator is the shared model as the victim left it, with heads for reality and identity; the identity is
    learnt from everybody's representatives; the discriminator's time grows with the rounds. Networks are those of
    Tables I and II at `width` = 1, which needs a GPU; narrower ones have the same layers. The paper does not say how
    many steps a round has. Its learning rate, 2e-4 for both, is that of a wide discriminator: a thin one then cannot
    tell fakes from real images, and the generator stays with one image of each class.
    """

    name: ClassVar[str] = "mgan-passive"
    summary: ClassVar[str] = (
        "Trains a GAN against the client's own model to generate realistic images of a class that are specific to the "
        "client (passive mGAN-AI)."
    )
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "built-in"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = by_used_rounds

    steps: Annotated[
        int, Meta(ge=1, description="generator steps per round; the discriminator takes at least as many")
    ] = 50
    critic_rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the discriminator")] = 1e-3
    turns: Annotated[
        bool,
        Meta(description="alternate discriminator and generator steps; false: all steps of one, then of the other"),
    ] = True
    width: Annotated[
        float, Meta(gt=0, le=4, description="channels of the generator, as a multiple of Tables I and II")
    ] = 0.25
    rounds: Annotated[
        int, Meta(ge=1, description="rounds that are attacked, evenly over the run; all, if there are fewer")
    ] = 40
    early: Annotated[
        int, Meta(ge=1, description="number of first rounds that give representatives; later ones show little")
    ] = 6
    iterations: Annotated[int, Meta(ge=1, description="steps of the search for representatives")] = 30

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """A generator for every victim."""
        scene = self.scene(view, prior, questions, context.rng)
        rounds = {victim: spread(scene.rounds(victim), self.rounds) for victim in scene.victims}
        first = sorted({number for own in rounds.values() for number in own[: self.early]})
        portraits = scene.portraits(self._inversion, first, context.rng)
        return self._drawn(scene, rounds, portraits, context)

    def scene(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> Scene:
        """The run, with the links that this adversary sees."""
        return Scene(view, questions)

    @property
    def _inversion(self) -> Inversion:
        return Inversion(iterations=self.iterations)

    def _drawn(
        self, scene: Scene, rounds: dict[int, list[int]], portraits: Portraits | None, context: AttackContext
    ) -> Predictions:
        from fedleak.federation.generator import Generator

        given = scene.questions
        claims = np.empty((len(given), given.samples, *scene.shape), dtype=np.float32)
        for place, victim in enumerate(scene.victims):
            generator = Generator(scene.shape, given.classes, self.width, context.rng)
            claims[place] = reconstruct(scene, victim, generator, rounds[victim], portraits, self, context.rng)
            context.progress((place + 1) / len(scene.victims))
        return claims


@dataclass(frozen=True, kw_only=True)
class MganPassivePaper(MganPassive):
    """Algorithm 1 as it is printed, at the width of Table I.

    In every round D is overwritten by M_t + u_t^v, and representatives of that round (eq. 8, L-BFGS) feed the identity
    task; Adam with 2e-4 for both networks; targets are 0 and 1; categories are drawn at random. What the text leaves
    open is as in `MganPassive`: steps per round, batch, how fast D's time grows.
    """

    literal: ClassVar[bool] = True
    name: ClassVar[str] = "mgan-passive-paper"
    summary: ClassVar[str] = (
        "Trains a GAN against the client's own model and everybody's representatives, round by round (passive mGAN-AI "
        "as in the paper)."
    )
    needs: ClassVar[Observation] = MganPassive.needs | Observation.SIZES

    critic_rate: Annotated[float, Meta(gt=0, description="learning rate of Adam for the discriminator")] = 2e-4
    width: Annotated[
        float, Meta(gt=0, le=4, description="channels of the generator, as a multiple of Tables I and II")
    ] = 1.0
    rounds: Annotated[
        int, Meta(ge=1, description="rounds that are attacked, evenly over the run; all, if there are fewer")
    ] = 1000
    early: Annotated[int, Meta(ge=1, description="number of first rounds that give representatives")] = 1000

    @property
    def _inversion(self) -> Inversion:
        return PaperInversion(iterations=self.iterations)


@dataclass(frozen=True, kw_only=True)
class MganActive(MganPassive):
    """The same against a victim that is isolated on a model of its own, without the identity task.

    No other client's data reaches that model, so everything that it has learnt is the victim's; no representatives are
    needed. **Not the paper's setting**: there the isolated model and the discriminator are one (`MganActivePaper`).
    Here the discriminator is written over by the isolated model in every round, and the victim never sees it.
    """

    name: ClassVar[str] = "mgan-active"
    summary: ClassVar[str] = (
        "Isolates the client on a model that only its data trains, and trains a GAN against that model (active "
        "mGAN-AI)."
    )
    capabilities: ClassVar[Capability] = Capability.ISOLATE

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Only for victims that are isolated."""
        scene = Scene(view, questions)
        if not set(scene.victims) <= view.isolated:
            raise AttackError("attack 'mgan-active': a victim is not isolated in this run; see [isolate] in the plan")
        rounds = {victim: spread(scene.rounds(victim), self.rounds) for victim in scene.victims}
        return self._drawn(scene, rounds, None, context)


@dataclass(frozen=True, kw_only=True)
class MganActivePaper:
    """Predict what the generator of the affiliated server draws, as in section V-D.

    The victim was sent the discriminator and moved it by its updates, while the run was trained ([isolate] sent =
    "discriminator", which holds the settings); here that is repeated from the updates. No identity task.
    """

    name: ClassVar[str] = "mgan-active-paper"
    summary: ClassVar[str] = (
        "Sends the client the discriminator of a GAN, so that the client trains it on its own data (active mGAN-AI as "
        "in the paper)."
    )
    sends_discriminator: ClassVar[int] = 250  # steps per round of the run on which its contract is tested
    game: ClassVar[str] = "reconstruct"
    needs_model: ClassVar[str] = "built-in"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.ISOLATE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = fixed

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Repeat the training of every victim's generator, and let it draw the classes that its updates show."""
        scene = Scene(view, questions)
        if scene.replay is None or not set(scene.victims) <= view.isolated:
            raise AttackError(
                "attack 'mgan-active-paper': the victims of this run were not sent a discriminator; set sent = "
                "'discriminator' in [isolate]"
            )
        claims = np.empty((len(questions), scene.questions.samples, *scene.shape), dtype=np.float32)
        for place, victim in enumerate(scene.victims):
            wanted = turns(scene.classes(victim), scene.questions.samples)
            claims[place] = scene.replay.draw(victim, wanted, context.rng)
            context.progress((place + 1) / len(scene.victims))
        return claims
