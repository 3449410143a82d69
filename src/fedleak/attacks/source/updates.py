"""The client of a record, by what single updates do to the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.updates import GradientCosine, LossDrop, PerUpdate, Scores, every_client
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.games.source import SourceQuestions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["SourceLoss", "SourceCosine", "asked", "by_option"]


def asked(questions: Questions) -> SourceQuestions:
    """The questions of this game."""
    if not isinstance(questions, SourceQuestions):
        raise AttackError("this attack answers the questions of the game 'source' only")
    return questions


def by_option(signal: PerUpdate, view: View, given: SourceQuestions, context: AttackContext) -> Scores:
    """The mean standardised signal of each record and client in question: (records, options)."""
    found, handles = every_client(signal, view, given.records, context)
    return found[:, np.searchsorted(handles, view.updates.handle[given.updates])]


@dataclass(frozen=True, kw_only=True)
class _BySignal:
    """Name the client whose updates speak for a record more than those of the round's other clients."""

    game: ClassVar[str] = "source"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.LINKS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    rounds: Annotated[int, Meta(ge=1, description="rounds that are used, at most: evenly over the run")] = 10

    def signal(self) -> PerUpdate:
        """What is measured of a record and an update."""
        raise NotImplementedError

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Average over the rounds in which a client took part."""
        return by_option(self.signal(), view, asked(questions), context).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class SourceLoss(_BySignal):
    """Name the client whose own model has the smallest loss on the record (Hu et al., 2021).

    The shared model plus an update is the client's own model. Clients are in different rounds, so the loss is
    standardised by the round's other clients before it is averaged.
    """

    name: ClassVar[str] = "source-loss"
    summary: ClassVar[str] = (
        "Names the client whose own model, snapshot plus update, has the lowest loss on a record (source inference)."
    )

    def signal(self) -> PerUpdate:
        """The confidence of each client's own model."""
        return LossDrop(rounds=self.rounds)


@dataclass(frozen=True, kw_only=True)
class SourceCosine(_BySignal):
    """Name the client whose updates point the way in which the record alone would move the model."""

    name: ClassVar[str] = "source-cosine"
    summary: ClassVar[str] = "Names the client whose updates are most similar to the negative gradient of a record."

    def signal(self) -> PerUpdate:
        """The cosine of the negative gradient and each update."""
        return GradientCosine(rounds=self.rounds)
