"""What if the adversary knows only some of the users?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

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
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.score.assemble import label
from fedleak.score.result import Analysis, Figure, Series

__all__ = ["SeenUsers"]


@dataclass(frozen=True, kw_only=True)
class SeenUsers(SingleAttackAnalysis):
    """The open world over the share of users whom the adversary knows (Orekondy et al., 2020, Figure 6)."""

    name: ClassVar[str] = "seen-users"
    summary: ClassVar[str] = "What if the adversary has prior data of only some of the users (open world)?"

    shares: Annotated[
        tuple[Annotated[float, Meta(gt=0, lt=1)], ...],
        Meta(min_length=1, description="shares of the users in questions that the adversary knows, each in turn"),
    ] = (0.2, 0.4, 0.6, 0.8)
    held_out: Annotated[
        float, Meta(gt=0, lt=1, description="share of all users who serve only to learn what a stranger looks like")
    ] = 1 / 3

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision, chance and their ratio over the share of seen users; nothing is trained again."""
        attacks = [chosen(plan, self.name, self.attack)]
        # Whether two updates have one sender can be asked about strangers too.
        attacks += [attack for attack in plan.attacks if attack.game == "match"]
        games = [
            replace(base, seen=share, held_out=self.held_out)
            for base in {attack.game: base_game(plan, attack) for attack in attacks}.values()
            # Nobody seen is a question about pairs, but leaves no name to choose.
            for share in ((0.0, *self.shares) if base.name == "match" else self.shares)
        ]
        varied = vary(plan, attacks=attacks, games=games)
        found = [measured(plan, claims) for claims in play(varied, out, progress, jobs)]
        curves: dict[str, list[Point]] = {}
        for (attack, game, _), one in zip(varied.plays, found, strict=True):
            curves.setdefault(label(attack, attacks), []).append(Point(game.seen, f"{game.seen:.0%} seen", one))
        first = next(iter(curves.values()))
        ends = [
            f"with {point.label}, average precision {format_measured(point.measured)}"
            for point in (first[0], first[-1])
        ]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                f"A third group of users ({self.held_out:.0%}) only serves to learn what a stranger looks like. Of the "
                "others the adversary knows a share, and has to answer `unseen` for the updates of the rest. "
                f"{attacks[0].name}: {'; '.join(ends)}. More users known means more names to choose from, so the "
                f"number may fall while its distance from chance grows. {closing(plan, attacks[0])}"
            ),
            columns=["attack", "seen", *COLUMNS],
            rows=[[name, point.label, *numbers(point.measured)] for name, points in curves.items() for point in points],
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision over the share of users seen",
                    x_label="share of the users asked about who are seen",
                    y_label="average precision",
                    series=[
                        series
                        for name, points in curves.items()
                        for series in curve(name, points, chance=f"chance of {name}" if len(curves) > 1 else "chance")
                    ],
                ),
                Figure(
                    kind="lines",
                    title="The same as a multiple of chance",
                    x_label="share of the users asked about who are seen",
                    y_label="times chance",
                    series=[
                        *(multiple(name, points) for name, points in curves.items()),
                        Series(name="chance", x=list(self.shares), y=[1.0] * len(self.shares), reference=True),
                    ],
                ),
            ],
        )


def multiple(name: str, points: list[Point]) -> Series:
    """A curve divided by its chance level."""
    kept = [point for point in points if point.measured.chance > 0]
    return Series(
        name=name,
        x=[point.x for point in kept],
        y=[point.measured.value / point.measured.chance for point in kept],
        low=[point.measured.low / point.measured.chance for point in kept],
        high=[point.measured.high / point.measured.chance for point in kept],
    )
