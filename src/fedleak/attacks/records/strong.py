"""An attack on records that fades later than the paper's.

Where many users hold secrets of one format, the paper's sum of ranks fades (Yuan et al., 2021, Fig. 4c), for two
reasons. The secret is not among the candidates, because the model has not memorised it yet: here a search is guided by
what the model learns when a client takes part (beam_search.py), in addition to the most likely records under many
snapshots. And the final exposure counts as much as the correlation, and favours whoever was selected last: here a
record's likelihood at its best is added to the correlation, which decides between records that differ in a digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.records.beam_search import contrasts, guided
from fedleak.attacks.records.candidate_search import Searching, named, presence
from fedleak.attacks.records.eavesdrop import spearman
from fedleak.attacks.records.exposure_history import language
from fedleak.attacks.records.scoring import Scores, log_probabilities
from fedleak.core import Observation
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["EavesdropStrong"]

# Weight of a prefix's log-probability relative to the client's contribution to it (in trials 0.1 to 0.5 did about as
# well, 0 and 2 much worse): among prefixes that are memorised in the same rounds, the right one is more likely.
_LEVEL = 0.5


@dataclass(frozen=True, kw_only=True)
class EavesdropStrong(Searching):
    """Search for each client's record by its contribution to the model, then rank by correlation and likelihood."""

    snapshots: Annotated[
        int, Meta(ge=1, description="search this many snapshots, evenly spaced, the last included")
    ] = 40
    limit: Annotated[
        int,
        Meta(ge=1, description="prefixes that a search may follow at once to prove that no more likely record exists"),
    ] = 512
    width: Annotated[int, Meta(ge=1, description="beam width: prefixes that the search follows for each client")] = 30
    weight: Annotated[
        float,
        Meta(
            gt=0, description="nats of likelihood that a perfect correlation with the client's participation is worth"
        ),
    ] = 80.0

    name: ClassVar[str] = "eavesdrop-strong"
    summary: ClassVar[str] = (
        "Searches for records whose likelihood rises when a client takes part (beam search), and ranks them by "
        "correlation with its participation and by likelihood."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.SELECTION

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Rank by correlation and likelihood together."""
        assert isinstance(questions, RecordQuestions)
        found = self.search(view, questions, range(view.rounds + 1), context.workers)
        lengths = np.array([len(record) for record in found.records])
        records, logs = found.records, found.exposure * lengths
        if not questions.listed:
            more = self._more(view, questions, np.diff(logs, axis=0), context.workers)
            new = tuple(record for record in more if record not in set(records))
            if new:
                records, logs = (
                    (*records, *new),
                    np.concatenate([logs, self._read(view, questions, new, context.workers)], axis=1),
                )
        correlation = spearman(presence(view, questions.clients), np.diff(logs, axis=0))
        order = np.argsort(-(self.weight * correlation + logs.max(axis=0)), axis=1, kind="stable")
        return named(questions, records, order)

    def _read(self, view: View, questions: RecordQuestions, texts: Sequence[str], workers: int) -> Scores:
        reader = language(view, questions.records.characters, questions.records.context)
        snapshots = (view.snapshot(number) for number in range(view.rounds + 1))
        return log_probabilities(reader, snapshots, texts, workers)

    def _more(self, view: View, questions: RecordQuestions, changes: Scores, workers: int) -> tuple[str, ...]:
        """Records that the guided search finds."""
        others = {client for number in range(1, view.rounds + 1) for client in view.selection(number)}
        everybody = [*questions.clients, *sorted(others - set(questions.clients))]
        weights = contrasts(presence(view, everybody), changes)[: len(questions)] * np.sqrt(view.rounds)

        def score(texts: Sequence[str]) -> Scores:
            logs = self._read(view, questions, texts, workers)
            return np.asarray(weights @ np.diff(logs, axis=0) + _LEVEL * logs[len(logs) // 2 :].mean(axis=0))

        return guided(questions.form, score, len(questions), self.width)
