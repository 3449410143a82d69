"""The strongest combination of what an adversary sees of a record's client: snapshots, selection, updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.updates import GradientCosine, LossDrop, Scores, comparable
from fedleak.attacks.source.selection import explained
from fedleak.attacks.source.updates import asked, by_option
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["SourceStrong"]


@dataclass(frozen=True, kw_only=True)
class SourceStrong:
    """Add up, in standard deviations, what participation and single updates say of a record's client."""

    name: ClassVar[str] = "source-strong"
    summary: ClassVar[str] = (
        "Combines participation with the clients' own models and the direction of their updates, as far as the "
        "adversary sees them, into one score."
    )
    game: ClassVar[str] = "source"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.SELECTION
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    rounds: Annotated[int, Meta(ge=1, description="rounds whose updates are used, at most")] = 10

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a client by the sum of the standardised signals."""
        given = asked(questions)
        signals = [explained(view, given, 1.0)]
        if comparable(view) and not view.adversary.lacks(Observation.LINKS):
            signals += [
                by_option(signal, view, given, context)
                for signal in (LossDrop(rounds=self.rounds), GradientCosine(rounds=self.rounds))
            ]
        return np.asarray(sum(map(_standardised, signals)), dtype=np.float32)


def _standardised(found: Scores) -> Scores:
    """Of each record over the clients: what all clients do to a record says nothing about whose it is."""
    off = found - found.mean(axis=1, keepdims=True)
    return np.asarray(off / max(float(off.std()), 1e-12))
