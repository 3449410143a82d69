"""The strongest combination of what an adversary sees of a record: finished model, snapshots, updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.references import references
from fedleak.attacks.membership.rmia import log_ratio
from fedleak.attacks.membership.signals import asked, confidence
from fedleak.attacks.membership.updates import GradientCosine, LossDrop, against_others, comparable
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.federation.model import Model
from fedleak.games.game import Questions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior, Reference
from fedleak.views.view import View

__all__ = ["MembershipStrong"]

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class MembershipStrong:
    """Add up what each observation says of a record, all in standard deviations.

    The finished model against finished references (as RMIA); with snapshots, every stage of training against the same
    stage of the references; with updates, the cosine of the record's gradient and the confidence of the client's own
    model, each against the round's other clients.
    """

    name: ClassVar[str] = "membership-strong"
    summary: ClassVar[str] = (
        "Combines reference federations, snapshots and updates, as far as the adversary sees them, into one score."
    )
    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.MODEL
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    imitates: ClassVar[bool] = True  # it trains federations, to which it can apply the defences

    references: Annotated[int, Meta(ge=1, le=64, description="reference federations, at most")] = 8
    rounds: Annotated[int, Meta(ge=1, description="rounds whose updates are used, at most")] = 10

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a record by the sum of its standardised signals."""
        given, model = asked(questions), model_of(view)
        known = references(view, model, prior, self.references, context)
        seen = Observation.SNAPSHOTS in view.adversary.observations
        stages = _stages(known, view.rounds) if seen else np.full(1, view.rounds)
        ratios = np.stack([_against(view, model, known, int(number), given.records) for number in stages])
        signals = [ratios[-1]]
        if len(stages) > 1:
            signals.append(ratios.mean(axis=0))
        if comparable(view):
            for attack in (LossDrop(rounds=self.rounds), GradientCosine(rounds=self.rounds)):
                signals.append(against_others(attack, view, given, context))
        by_question = [given.mean(signal)[:, 0].astype(np.float64) for signal in signals]
        total = sum((_standardised(one) for one in by_question), np.zeros(len(given)))
        return np.asarray(total, dtype=np.float32)[:, None]


def _stages(known: tuple[Reference, ...], last: int) -> IntArray:
    """The later half of the rounds that all references have models of: early models know nobody's records."""
    shared = known[0].rounds
    for one in known[1:]:
        shared = np.intersect1d(shared, one.rounds)
    return np.append(shared[(shared > last / 2) & (shared < last)], last)


def _against(view: View, model: Model, known: tuple[Reference, ...], number: int, records: Examples) -> Scores:
    """The logarithm of the likelihood ratio after a round."""
    finished = number == view.rounds  # a reference that stopped early is finished sooner
    mine = view.final if finished else view.snapshot(number)
    at = [-1 if finished else int(np.searchsorted(one.rounds, number)) for one in known]
    theirs = [{name: rows[i] for name, rows in one.models.items()} for i, one in zip(at, known, strict=True)]
    models = {layer.name: np.stack([one[layer.name] for one in (mine, *theirs)]) for layer in model.layout}
    sure = confidence(model, view.task, models, records)
    return log_ratio(view.task, sure[0], sure[1:])


def _standardised(values: Scores) -> Scores:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-12))
