"""Find clients that fit a profile by the direction in which examples of it move the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import layer_name, unit
from fedleak.attacks.imitate import Imitation
from fedleak.attacks.profile.same_client import same_client
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.federation.proxies import alike
from fedleak.games.game import Questions
from fedleak.games.profile import ProfileQuestions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ProfileGradient"]


@dataclass(frozen=True, kw_only=True)
class ProfileGradient:
    """Compare an update with the change that examples of the profile cause in the same model.

    The paper runs a client with the profile's examples in the federation. This server simulates it on its own machine,
    from every snapshot, which needs no capability: the same simulated client twice, once with examples that fit and
    once with other examples of the same classes in their place. The difference between the two updates is the effect of
    the profile alone.
    """

    name: ClassVar[str] = "profile-gradient"
    summary: ClassVar[str] = (
        "Computes gradients on public examples of a profile and finds updates that point the same way."
    )
    game: ClassVar[str] = "profile"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.UPDATES | Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_rounds

    layer: Annotated[str, Meta(description="layer of the update to use; `last` is the output layer")] = "last"
    clients: Annotated[int, Meta(ge=1, description="pairs of clients to simulate in a round")] = 6
    examples: Annotated[int, Meta(ge=2, description="examples on a simulated client")] = 40
    part: Annotated[float, Meta(gt=0, le=1, description="share of these that are of the profile")] = 0.5

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score an update by its cosine with the profile's direction in its round.

        Where the adversary can tell which updates come from one client, the mean over all of them counts.
        """
        if not isinstance(questions, ProfileQuestions):
            raise AttackError("this attack answers the questions of the game 'profile' only")
        name = layer_name(view, self.layer)
        imitation = Imitation(view, self._clients(questions, context.rng), int(context.rng.integers(2**63)))
        updates, about = view.updates, same_client(view, questions)
        total, count = np.zeros(len(questions)), np.zeros(len(questions))
        for number in range(1, view.rounds + 1):
            rows = np.flatnonzero((updates.round == number) & (about >= 0))
            if len(rows) == 0:
                continue
            found = imitation.updates(number)[name]
            direction = unit((found[0::2] - found[1::2]).mean(axis=0, keepdims=True))
            cosine = unit(np.asarray(updates.layer(name)[rows], dtype=np.float32)) @ direction[0]
            np.add.at(total, about[rows], cosine)
            np.add.at(count, about[rows], 1)
        return np.asarray(total / count, dtype=np.float32)[:, None]

    def _clients(self, questions: ProfileQuestions, rng: np.random.Generator) -> list[Examples]:
        """Pairs of clients that differ only in the examples of the profile."""
        wanted = max(1, round(self.part * self.examples))
        fitting, unlike, others = questions.fitting, questions.unlike, questions.others
        found = []
        for _ in range(self.clients):
            rows = rng.choice(len(fitting), wanted, replace=len(fitting) < wanted)
            rest = others.take(rng.choice(len(others), self.examples - wanted))
            for chosen in (fitting.take(rows), unlike.take(alike(fitting.take(rows), unlike, rng))):
                found.append(Examples.concat([chosen, rest]))
        return found
