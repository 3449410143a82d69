"""Membership by the ratio of likelihoods to reference models, compared with that of a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.references import calibrated, references
from fedleak.attacks.membership.signals import asked, log_probability
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Rmia", "log_ratio"]

_POPULATION = 1000


@dataclass(frozen=True, kw_only=True)
class Rmia:
    """Robust membership inference (Zarifzadeh et al., 2024), offline: no reference was trained on the record.

    How much likelier the model finds the record than references do, compared with the same of other people's records.
    The paper counts how many of these the record exceeds. All records of a run are compared with the same population,
    so the order is that of the ratio itself; scores are the logarithm of the ratio, standardised by the population,
    which keeps that order and has no ties.
    """

    name: ClassVar[str] = "membership-rmia"
    summary: ClassVar[str] = (
        "Compares the likelihood of a record under the model with that under reference federations of other users, "
        "relative to a population (RMIA)."
    )
    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.MODEL
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    imitates: ClassVar[bool] = True  # it trains federations, to which it can apply the defences

    references: Annotated[int, Meta(ge=1, le=64, description="reference federations, at most")] = 8
    a: Annotated[
        float,
        Meta(ge=0, le=1, description="offline correction: the likelihood with the record in the data is a p + (1 - a)"),
    ] = 0.3

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a record by the logarithm of its ratio."""
        given, model = asked(questions), model_of(view)
        known = references(view, model, prior, self.references, context)
        target, others = calibrated(model, view, known, given.records)
        ratio = log_ratio(view.task, target, others, self.a)
        population = self._population(prior, given.records, context.rng)
        them = log_ratio(view.task, *calibrated(model, view, known, population), self.a)
        return given.mean((ratio - them.mean()) / max(float(them.std()), 1e-12))

    def _population(self, prior: Prior, records: Examples, rng: np.random.Generator) -> Examples:
        """Records of nobody in the federation: public ones, or those in question where there are none."""
        public = records if prior.background is None else prior.background.examples
        rows = rng.permutation(len(public))[:_POPULATION]
        return Examples(x=public.x[rows], y=None if public.y is None else public.y[rows])


def log_ratio(
    task: Task, target: npt.NDArray[np.float64], others: npt.NDArray[np.float64], a: float = 0.3
) -> npt.NDArray[np.float64]:
    """The logarithm of p(x | model) / p(x), from the confidence of the model and of references without the record."""
    out = np.exp(log_probability(task, others)).mean(axis=0)
    return np.asarray(log_probability(task, target) - np.log(((1 + a) * out + (1 - a)) / 2))
