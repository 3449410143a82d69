"""Rank records by their likelihood under the final model, the same for every client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.records.candidate_search import Searching, named
from fedleak.attacks.work import by_snapshots
from fedleak.core import Observation
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ExposureBaseline"]


@dataclass(frozen=True, kw_only=True)
class ExposureBaseline(Searching):
    """Name the records that the final model has memorised best (Carlini et al., 2019).

    It cannot tell whose they are and gives every client the same ranking, so of N secrets it can rank at most one in N
    first for the right client.
    """

    name: ClassVar[str] = "exposure-baseline"
    summary: ClassVar[str] = "Names the records most likely under the final model, the same for every client."
    needs: ClassVar[Observation] = Observation.SNAPSHOTS
    work = by_snapshots

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Rank by exposure under the last snapshot."""
        found = self.search(view, questions, [view.rounds], context.workers)
        order = np.argsort(-found.exposure[-1], kind="stable")
        return named(questions, found.records, np.tile(order, (len(questions), 1)))
