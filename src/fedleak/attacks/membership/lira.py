"""Membership by a likelihood-ratio test between models with and without a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.references import calibrated, references, train_reference
from fedleak.attacks.membership.signals import asked, confidence
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.federation.model import Model
from fedleak.games.game import Questions
from fedleak.games.membership import MembershipQuestions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior, Reference
from fedleak.views.view import View

__all__ = ["LiraOffline", "LiraOnline"]


@dataclass(frozen=True, kw_only=True)
class LiraOffline:
    """The offline likelihood-ratio attack (Carlini et al., 2022): how unlikely is this confidence without the record?

    With few references the spread of the confidence is that of all records together, as the paper advises.
    """

    name: ClassVar[str] = "membership-lira"
    summary: ClassVar[str] = (
        "Tests how unusual the model's confidence in a record is among reference federations that never saw it "
        "(LiRA, offline)."
    )
    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.MODEL
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    imitates: ClassVar[bool] = True  # it trains federations, to which it can apply the defences

    references: Annotated[int, Meta(ge=1, le=64, description="reference federations, at most")] = 8

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a record by how far its confidence is above that of the references."""
        given, model = asked(questions), model_of(view)
        known = references(view, model, prior, self.references, context)
        target, others = calibrated(model, view, known, given.records)
        return given.mean((target - others.mean(axis=0)) / _spread(others))


@dataclass(frozen=True, kw_only=True)
class LiraOnline:
    """The online likelihood-ratio attack (Carlini et al., 2022): is this a confidence with or without the record?

    The adversary has the records in question, so it can train federations with them: every federation gets a random
    half of them, as further clients beside users of its own.
    """

    name: ClassVar[str] = "membership-lira-online"
    summary: ClassVar[str] = (
        "Trains reference federations with and without each record and compares the likelihood of the model's "
        "confidence under both (LiRA, online)."
    )
    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.MODEL
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    imitates: ClassVar[bool] = True

    references: Annotated[
        int, Meta(ge=2, le=64, description="reference federations; they come in pairs, which share out the records")
    ] = 4

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a record by the logarithm of the ratio of two normal densities."""
        given, model = asked(questions), model_of(view)
        clients = _clients(given)
        pools = [one.clients for one in references(view, model, prior, max(1, self.references // 2), context)]
        inside, outside = [], []
        rounds = max(1, self.references // 2)
        for number in range(rounds):
            coin = context.rng.permutation(given.asked) % 2 == 0
            for side in (coin, ~coin):  # each record is in one of the two
                used = side[given.question]
                trained = self._train(view, model, pools[number % len(pools)], given.records, clients, used, context)
                sure = confidence(model, view.task, _last(trained), given.records)[0]
                inside.append(np.where(used, sure, np.nan))
                outside.append(np.where(used, np.nan, sure))
            context.progress((number + 1) / (rounds + 1))
        final = {name: values[None] for name, values in view.final.items()}
        target = confidence(model, view.task, final, given.records)[0]
        mean_in, mean_out = (np.nanmean(np.stack(side), axis=0) for side in (inside, outside))
        spread_in, spread_out = _spread_around(inside, mean_in), _spread_around(outside, mean_out)
        likely_in = -0.5 * ((target - mean_in) / spread_in) ** 2 - np.log(spread_in)
        likely_out = -0.5 * ((target - mean_out) / spread_out) ** 2 - np.log(spread_out)
        return given.mean(likely_in - likely_out)

    def _train(
        self,
        view: View,
        model: Model,
        own: tuple[Examples, ...],
        records: Examples,
        clients: list[npt.NDArray[np.int64]],
        used: npt.NDArray[np.bool_],
        context: AttackContext,
    ) -> Reference:
        """A federation in which some of the adversary's users make room for clients with the records."""
        added = [records.take(mine[used[mine]]) for mine in clients if used[mine].sum() >= 2]
        room = list(own)[: max(1, len(own) - len(added))] if len(own) > len(added) else list(own)[:1]
        return train_reference(view, model, [*room, *added], int(context.rng.integers(2**62)))


def _clients(given: MembershipQuestions) -> list[npt.NDArray[np.int64]]:
    """The records in question by client or user, which the adversary is told."""
    owner = given.updates if given.updates.size else given.question
    return [np.flatnonzero(owner == one) for one in np.unique(owner)]


def _last(one: Reference) -> dict[str, FloatArray]:
    return {name: rows[-1:] for name, rows in one.models.items()}


def _spread(others: npt.NDArray[np.float64]) -> float:
    """The standard deviation of the confidence between references, over all records."""
    if len(others) < 2:
        return 1.0
    return max(float(np.sqrt(others.var(axis=0, ddof=1).mean())), 1e-6)


def _spread_around(sides: list[npt.NDArray[np.float64]], mean: npt.NDArray[np.float64]) -> float:
    off = np.stack(sides) - mean
    return max(float(np.sqrt(np.nanmean(off**2))), 1e-3)
