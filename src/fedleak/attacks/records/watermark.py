"""Attribute a record to the client whose watermark is memorised together with it.

The adversary does not see who takes part. But a record that it injected into a client's text is memorised when that
client takes part and half forgotten otherwise, and so are the other records of the same client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.records.candidate_search import Candidates
from fedleak.attacks.records.eavesdrop import Correlating
from fedleak.attacks.records.exposure_history import followed
from fedleak.attacks.records.scoring import Scores
from fedleak.core import Capability, Observation
from fedleak.errors import AttackError
from fedleak.games.extract import RecordQuestions
from fedleak.views.view import View

__all__ = ["Watermark", "watermarks"]


@dataclass(frozen=True, kw_only=True)
class Watermark(Correlating):
    """Correlate changes of a record's exposure with those of a watermark (Yuan et al., 2021, eq. 11, 12)."""

    name: ClassVar[str] = "watermark"
    summary: ClassVar[str] = (
        "Names for each client the records that the model memorises and forgets together with a watermark injected "
        "there."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.INJECT

    def signals(self, view: View, questions: RecordQuestions) -> Scores:
        """How the exposure of the client's watermark changed."""
        return np.diff(watermarks(view, questions), axis=0)

    def followed(self, view: View, questions: RecordQuestions, workers: int = 1) -> Candidates:
        """Leave out its own records, the only ones of which it knows that they are nobody's secret."""
        found, own = super().followed(view, questions, workers), set(view.injected.values())
        foreign = [place for place, record in enumerate(found.records) if record not in own]
        return Candidates(tuple(found.records[place] for place in foreign), found.exposure[:, foreign])


def watermarks(view: View, questions: RecordQuestions) -> Scores:
    """How exposed the watermark of each client that is asked about was after every round, from round 0 on.

    0 in every round for a client without one: the adversary knows nothing of it, and is left with the baseline.
    """
    places = [place for place, client in enumerate(questions.clients) if client in view.injected]
    if not places:
        raise AttackError(
            f"nothing was placed in the data of {len(questions)} of {len(questions)} clients (first: "
            f"{questions.clients[0]}), so there is nothing to follow; train with a table [inject] in the plan"
        )
    marks = [view.injected[questions.clients[place]] for place in places]
    found = np.zeros((view.rounds + 1, len(questions)))
    found[:, places] = followed(view, questions.records.characters, "\n", marks)
    return found
