"""Which layer of an update identifies its sender?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from fedleak.analyses.analysis import (
    COLUMNS,
    Point,
    SingleAttackAnalysis,
    base_game,
    chosen,
    closing,
    curve,
    format_measured,
    measured,
    numbers,
    play,
    vary,
)
from fedleak.pipeline import stages
from fedleak.pipeline.runs import facts, runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.score.result import Analysis, Figure

__all__ = ["Layers"]


@dataclass(frozen=True, kw_only=True)
class Layers(SingleAttackAnalysis):
    """Run one attack on every layer in turn (Orekondy et al., 2020, Figure 9 and Table 5)."""

    name: ClassVar[str] = "layers"
    summary: ClassVar[str] = "Which layer of an update identifies its sender?"

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision and number of parameters of every layer, from input to output."""
        attack = chosen(plan, self.name, self.attack, layered=True)
        game = base_game(plan, attack)
        once = vary(plan, attacks=[attack], games=[game])
        stages.train(once, out, progress, jobs)
        trained = facts(runs(once, out)[0])
        assert trained is not None
        sizes = trained.layers
        every = vary(plan, attacks=[replace(attack, layer=layer) for layer in sizes], games=[game])
        found = [measured(plan, claims) for claims in play(every, out, progress, jobs)]
        points = [
            Point(place, f"{layer} ({size:,} parameters)", one)
            for place, ((layer, size), one) in enumerate(zip(sizes.items(), found, strict=True))
        ]
        best = max(points, key=lambda point: point.measured.value)
        leaking = sum(point.measured.low > point.measured.chance for point in points)
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The same attack is run on one layer of the updates at a time. "
                f"{leaking} of {len(points)} layers identify senders; the best is {best.label}, average "
                f"precision {format_measured(best.measured)}. {closing(plan, attack)}"
            ),
            columns=["layer", "parameters", *COLUMNS],
            rows=[[layer, size, *numbers(one)] for (layer, size), one in zip(sizes.items(), found, strict=True)],
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision by layer, from input to output",
                    x_label="layer",
                    y_label="average precision",
                    x_ticks=list(sizes),
                    series=curve(attack.name, points),
                )
            ],
        )
