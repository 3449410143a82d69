"""How many labelled updates does the adversary need?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import (
    COLUMNS,
    Point,
    SingleAttackAnalysis,
    base_game,
    chosen,
    closing,
    curve,
    doubling,
    format_measured,
    measured,
    play,
    table,
    vary,
)
from fedleak.errors import AttackError
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.score.result import Analysis, Figure

__all__ = ["LabelledUpdates"]


@dataclass(frozen=True, kw_only=True)
class LabelledUpdates(SingleAttackAnalysis):
    """Give the attack 1, 2, 4, ... labelled updates of each user (Orekondy et al., 2020, Figure 8)."""

    name: ClassVar[str] = "labelled-updates"
    summary: ClassVar[str] = "How many labelled updates of each user does the adversary need?"

    counts: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="how many, each in turn; 1, 2, 4, ... if empty")
    ] = ()

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision over the number of labelled updates; nothing is trained again."""
        attack = chosen(plan, self.name, self.attack)
        game = replace(base_game(plan, attack), labelled=None)
        once = vary(plan, attacks=[attack], games=[game])
        stages.train(once, out, progress, jobs)
        shadows = [given.shadow[given.shadow >= 0] for given in (build_questions(run, game) for run in runs(once, out))]
        numbers = np.concatenate([np.bincount(shadow) for shadow in shadows])
        if not numbers.any():
            raise AttackError("no shadow client was selected in any round, so no labelled update exists; train more")
        most = float(numbers[numbers > 0].mean())
        counts = self.counts or tuple(doubling(most))
        games = [*(replace(game, labelled=count) for count in counts), game]
        found = [
            measured(plan, claims) for claims in play(vary(plan, attacks=[attack], games=games), out, progress, jobs)
        ]
        places = [*((float(count), f"at most {count}") for count in counts), (most, f"all (mean {most:.1f})")]
        points = [Point(x, label, one) for (x, label), one in zip(places, found, strict=True)]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The adversary keeps only some of the labelled updates of each user, drawn at random, and learns from "
                f"those. With at most {counts[0]} it reaches average precision "
                f"{format_measured(found[0])}; with "
                f"all of them, {most:.1f} on average, {format_measured(found[-1])}. {closing(plan, attack)}"
            ),
            columns=["labelled updates", *COLUMNS],
            rows=table(points),
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision over the number of labelled updates of each user",
                    x_label="labelled updates of each user",
                    y_label="average precision",
                    series=curve(attack.name, points),
                    log_x=True,
                )
            ],
        )
