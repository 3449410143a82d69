"""How many labelled updates does the adversary need?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.analyses.analysis import with_settings
from fedleak.analyses.curves import Point, doubling, format_measured
from fedleak.analyses.sweep_analysis import Counts, Scale, Subject, SweepAnalysis, Variation
from fedleak.errors import AttackError
from fedleak.pipeline.attack_runner import build_questions

__all__ = ["LabelledUpdates"]


@dataclass(frozen=True, kw_only=True)
class LabelledUpdates(SweepAnalysis):
    """Give the attack 1, 2, 4, ... labelled updates of each user (Orekondy et al., 2020, Figure 8)."""

    name: ClassVar[str] = "labelled-updates"
    summary: ClassVar[str] = "How many labelled updates of each user does the adversary need?"
    columns: ClassVar[tuple[str, ...]] = ("labelled updates",)
    heading: ClassVar[str] = "Average precision over the number of labelled updates of each user"
    x_label: ClassVar[str] = "labelled updates of each user"
    scale: ClassVar[Scale] = "log"

    counts: Counts = ()

    def variations(self, subject: Subject) -> list[Variation]:
        """At most 1, 2, 4, ... of each user, and finally all; nothing is trained again."""
        game = with_settings(subject.game, labelled=None)
        shadows = [build_questions(run, game).shadow for run in subject.runs]
        numbers = np.concatenate([np.bincount(shadow[shadow >= 0]) for shadow in shadows])
        if not numbers.any():
            raise AttackError("no shadow client was selected in any round, so no labelled update exists; train more")
        most = float(numbers[numbers > 0].mean())
        return [
            *(
                Variation(x=float(count), label=f"at most {count}", game={"labelled": count})
                for count in self.counts or doubling(most)
            ),
            Variation(x=most, label=f"all (mean {most:.1f})", game={"labelled": None}),
        ]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """The result with the fewest, and with all."""
        few, every = points[0], points[-1]
        return (
            "The adversary keeps only some of the labelled updates of each user, drawn at random, and learns from "
            f"those. With {few.label} it reaches average precision {format_measured(few.measured)}; "
            f"with all of them, {every.x:.1f} on average, {format_measured(every.measured)}."
        )
