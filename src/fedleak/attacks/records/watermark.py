"""Whose record is it? The one in whose text it is learnt together with a record of the adversary's own.

The adversary does not see who takes part. But a record that it placed in somebody's text is learnt when that device
takes part and half forgotten otherwise, and so are the other records of the same device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.records.eavesdrop import rank_sum, spearman
from fedleak.attacks.records.following import followed
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.searching import Searching, named
from fedleak.core import Power, Sight
from fedleak.errors import AttackError
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Claims, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Watermark", "watermarks"]


@dataclass(frozen=True, kw_only=True)
class Watermark(Searching):
    """Follow how a record's exposure changes together with that of an injected one (Yuan et al., 2021, eq. 11, 12)."""

    name: ClassVar[str] = "watermark"
    summary: ClassVar[str] = (
        "Names for each device the records that the model learns and forgets in the same rounds as a record that the "
        "attacker placed there."
    )
    needs: ClassVar[Sight] = Sight.SNAPSHOTS
    powers: ClassVar[Power] = Power.INJECT

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> Claims:
        """Rank by the sum of two ranks: of the correlation with the device's watermark, and of the final exposure."""
        assert isinstance(questions, RecordQuestions)
        marks = watermarks(view, questions)
        found = self.search(view, questions, range(view.rounds + 1))
        # Its own records are the only ones of which it knows that they are nobody's secret.
        foreign = [place for place, record in enumerate(found.records) if record not in view.injected.values()]
        exposure = found.exposure[:, foreign]
        correlation = spearman(np.diff(marks, axis=0), np.diff(exposure, axis=0))
        orders = np.array([rank_sum(row, exposure[-1]) for row in correlation])
        return named(questions, [found.records[place] for place in foreign], orders)


def watermarks(view: View, questions: RecordQuestions) -> Scores:
    """How exposed the watermark of each device that is asked about was after every round, from round 0 on."""
    without = [device for device in questions.devices if device not in view.injected]
    if without:
        raise AttackError(
            f"nothing was placed in the data of {len(without)} of {len(questions)} devices (first: {without[0]}), so "
            "there is nothing to follow; train with a table [inject] in the plan"
        )
    marks = [view.injected[device] for device in questions.devices]
    return followed(view, questions.records.characters, "\n", marks)
