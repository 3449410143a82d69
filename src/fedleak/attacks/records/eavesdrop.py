"""Attribute a record to the client that takes part when the model memorises it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.records.candidate_search import Candidates, Searching, named, presence
from fedleak.attacks.records.scoring import Scores
from fedleak.core import IntArray, Observation
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Predictions, Questions
from fedleak.lazy import stats
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Correlating", "Eavesdrop", "spearman", "standard_ranks", "rank_sum"]


@dataclass(frozen=True, kw_only=True)
class Correlating(Searching):
    """Name for each client the records whose exposure changes with a signal of that client."""

    needs: ClassVar[Observation]

    def signals(self, view: View, questions: RecordQuestions) -> IntArray | Scores:
        """What is seen of each client in each round: (rounds, clients)."""
        raise NotImplementedError

    def followed(self, view: View, questions: RecordQuestions, workers: int = 1) -> Candidates:
        """Candidates, and how exposed they were after every round, from round 0 on."""
        return self.search(view, questions, range(view.rounds + 1), workers)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Rank by the sum of two ranks: of the correlation with the client's signal, and of the final exposure."""
        assert isinstance(questions, RecordQuestions)
        signals = self.signals(view, questions)
        found = self.followed(view, questions, context.workers)
        # The change made in a round belongs to the signals of that round; off by one, nothing is found.
        correlation = spearman(signals, np.diff(found.exposure, axis=0))
        orders = np.array([rank_sum(row, found.exposure[-1]) for row in correlation])
        return named(questions, found.records, orders)


@dataclass(frozen=True, kw_only=True)
class Eavesdrop(Correlating):
    """Correlate changes of a record's exposure with participation in each round (Yuan et al., 2021, eq. 9, 10)."""

    name: ClassVar[str] = "eavesdrop"
    summary: ClassVar[str] = (
        "Names for each client the records that the model memorises when that client takes part and forgets otherwise."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.SELECTION

    def signals(self, view: View, questions: RecordQuestions) -> IntArray:
        """Whether the client took part."""
        return presence(view, questions.clients)


def spearman(signals: IntArray | Scores, changes: Scores) -> Scores:
    """Rank correlation of every signal (rounds, signals) with every record's changes (rounds, records).

    0 where one of them never varies: it says nothing.
    """
    left, right = standard_ranks(signals), standard_ranks(changes)
    return np.asarray(left.T @ right / len(left))


def standard_ranks(table: IntArray | Scores) -> Scores:
    """Ranks within each column, with mean 0 and variance 1; a column that never varies is 0."""
    ranks = stats.rankdata(table, axis=0)
    centred = ranks - ranks.mean(axis=0)
    spread = centred.std(axis=0)
    return np.asarray(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0))


def rank_sum(correlation: Scores, exposure: Scores) -> IntArray:
    """The order of the records by rank(correlation) + rank(exposure), the largest being rank 1 in both."""
    total = stats.rankdata(-correlation) + stats.rankdata(-exposure)
    return np.lexsort((-correlation, total))
