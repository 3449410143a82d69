"""Does it matter at what stage of training an update was sent?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import SingleAttackAnalysis, base_game, closing, measured, play, vary, with_settings
from fedleak.analyses.curves import COLUMNS, format_measured, numbers
from fedleak.core import IntArray, format_value
from fedleak.errors import PlanError
from fedleak.metrics.metric import Metric
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure
from fedleak.score.score import AttackResult, Measured, metric_of
from fedleak.trace.reader import Trace

__all__ = ["Rounds"]


@dataclass(frozen=True, kw_only=True)
class Rounds(SingleAttackAnalysis):
    """Learn from the updates of some rounds, name the senders of others (Orekondy et al., 2020, Figure 10)."""

    name: ClassVar[str] = "rounds"
    summary: ClassVar[str] = "Does it matter at what stage of training an update was sent?"

    ranges: Annotated[int, Meta(ge=2, le=50, description="number of ranges that the rounds are divided into")] = 5

    def check(self, plan: Plan) -> None:
        """Reject a run that is too short to be divided."""
        super().check(plan)
        if plan.federation.rounds < 2 * self.ranges:
            raise PlanError(
                f"analysis 'rounds' needs {self.ranges} ranges of at least two rounds, but the plan has only "
                f"{plan.federation.rounds} rounds; choose fewer with --set ranges=N, or train longer"
            )

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """A grid of average precision: rows are the rounds learned from, columns the rounds asked about."""
        attack = self.chosen(plan)
        rounds = plan.federation.rounds
        edges = np.linspace(0, rounds, self.ranges + 1).round().astype(int)
        spans = [(a + 1, b) for a, b in pairwise(edges.tolist())]
        games = [with_settings(base_game(plan, attack), labelled_rounds=span) for span in spans]
        varied = vary(plan, attacks=[attack], games=games)
        plays = play(varied, out, progress, jobs)
        # What was asked is the same for every range that was learned from; a column is a part of the answers.
        when = [
            Trace.open(run.folder / "trace").round[build_questions(run, games[0]).questions.updates]
            for run in runs(varied, out)
        ]
        grid = [
            [self._cell(plan, metric_of(base_game(plan, attack), "ap"), claims, when, span) for span in spans]
            for claims in plays
        ]
        names = [f"{first}-{last}" for first, last in spans]
        flat = [cell for row in grid for cell in row if cell is not None]
        if not flat:
            raise PlanError(
                f"analysis 'rounds': no range of {rounds // self.ranges} rounds has updates of two users; choose "
                "fewer with --set ranges=N, or train longer"
            )
        same = [row[i] for i, row in enumerate(grid) if row[i] is not None]
        other = [cell for i, row in enumerate(grid) for j, cell in enumerate(row) if i != j and cell is not None]
        above = sum(cell.low > cell.chance for cell in flat)
        means = [
            format_value(float(np.mean([cell.value for cell in cells if cell]))) for cells in (same, other) if cells
        ]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The attack learns from the labelled updates of one range of rounds and names the senders of the "
                f"updates of another. {above} of {len(flat)} pairs of ranges are above chance; average precision is "
                f"{' within a range and '.join(means)} across ranges on average, at best "
                f"{format_measured(max(flat, key=lambda cell: cell.value))}. {closing(plan, attack.name)}"
            ),
            columns=["learned from rounds", "asked about rounds", *COLUMNS],
            rows=[
                [names[i], names[j], *numbers(cell)]
                for i, row in enumerate(grid)
                for j, cell in enumerate(row)
                if cell is not None
            ],
            figures=[
                Figure(
                    kind="heatmap",
                    title="Average precision by the rounds learned from and asked about",
                    x_label="rounds asked about",
                    y_label="rounds learned from",
                    x_ticks=names,
                    y_ticks=names,
                    cells=[[cell.value if cell else None for cell in row] for row in grid],
                )
            ],
        )

    def _cell(
        self,
        plan: Plan,
        metric: Metric,
        plays: Sequence[AttackResult],
        when: Sequence[IntArray],
        span: tuple[int, int],
    ) -> Measured | None:
        parts = []
        for claims, rounds in zip(plays, when, strict=True):
            kept = (rounds >= span[0]) & (rounds <= span[1])
            if len(np.unique(claims.right[kept])) > 1:  # of fewer users identities cannot be permuted
                who = None if claims.who is None else claims.who[kept]
                parts.append(replace(claims, claims=claims.claims[kept], right=claims.right[kept], who=who))
        return measured(plan, parts, metric) if parts else None
