"""An analysis that runs one attack over the values of one setting of the game, the attack or the training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from msgspec import Meta

from fedleak.analyses.analysis import (
    Numbered,
    SingleAttackAnalysis,
    base_game,
    closing,
    measured,
    play,
    trained,
    vary,
    with_settings,
)
from fedleak.analyses.curves import COLUMNS, Point, curve, numbers
from fedleak.attacks.attack import Attack
from fedleak.games.game import Game
from fedleak.pipeline.runs import Run
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure
from fedleak.score.labels import label
from fedleak.score.score import AttackResult, metric_of

__all__ = ["Counts", "Scale", "Subject", "SweepAnalysis", "Variation"]

Kind = TypeVar("Kind")
Scale: TypeAlias = Literal["linear", "log", "names"]
Counts: TypeAlias = Annotated[
    tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="how many, each in turn; 1, 2, 4, ... if empty")
]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is varied: an attack of the plan, its game, and the runs of the plan's own federation."""

    plan: Plan
    attack: Attack
    game: Game
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """One value of the setting: its position in table and figure, and the settings it changes."""

    x: float
    label: str
    cells: tuple[str | float, ...] = ()  # its cells in the table; the label if empty
    of: Attack | None = None  # the attack to run, if it is a different one
    attack: Mapping[str, Any] = field(default_factory=dict)
    game: Mapping[str, Any] = field(default_factory=dict)
    population: Mapping[str, Any] = field(default_factory=dict)  # trains another federation, named by the first


@dataclass(frozen=True, kw_only=True)
class SweepAnalysis(SingleAttackAnalysis, ABC):
    """Average precision over the values of one setting, as a table and a curve.

    A subclass gives the values, and explains the points in words.
    """

    columns: ClassVar[tuple[str, ...]]  # headings of the values
    heading: ClassVar[str]  # of the figure
    x_label: ClassVar[str]
    kind: ClassVar[Literal["lines", "bars"]] = "lines"
    scale: ClassVar[Scale] = "linear"

    @abstractmethod
    def variations(self, subject: Subject) -> list[Variation]:
        """Every value in turn."""

    @abstractmethod
    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """What was varied, and the result."""

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Train and attack what is missing for every value, and measure it."""
        attack = self.chosen(plan)
        subject = Subject(plan, attack, base_game(plan, attack), trained(plan, out, progress, jobs))
        values = self.variations(subject)
        attacks = _distinct([value.of or attack for value in values])
        points, lines = [], dict[str, list[Point]]()
        for value, claims in zip(values, self._play(subject, values, out, progress, jobs), strict=True):
            points.append(
                Point(
                    value.x, value.label, measured(plan, claims, metric_of(base_game(plan, value.of or attack), "ap"))
                )
            )
            lines.setdefault(label(value.of or attack, attacks), []).append(points[-1])
        cells = [value.cells or (value.label,) for value in values]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=f"{self.text(subject, points)} {closing(plan, attack.name)}",
            columns=[*self.columns, *COLUMNS],
            rows=[[*some, *numbers(point.measured)] for some, point in zip(cells, points, strict=True)],
            figures=self.figures(lines, [str(some[0]) for some in cells]),
        )

    def figures(self, lines: Mapping[str, Sequence[Point]], names: list[str]) -> list[Figure]:
        """A curve of each attack over the values, with its chance level."""
        return [
            Figure(
                kind=self.kind,
                title=self.heading,
                x_label=self.x_label,
                y_label="average precision",
                x_ticks=names if self.scale == "names" else None,
                series=[
                    series
                    for name, points in lines.items()
                    for series in curve(name, points, chance=f"chance of {name}" if len(lines) > 1 else "chance")
                ],
                log_x=self.scale == "log",
            )
        ]

    def _play(
        self, subject: Subject, values: Sequence[Variation], out: Path, progress: Progress, jobs: int | None
    ) -> Iterator[Sequence[AttackResult]]:
        """Run all attacks on the plan's own federation together; the other federations follow one by one."""
        plan = subject.plan
        given = [(value.of or subject.attack, value) for value in values]
        plays = [
            (with_settings(attack, **value.attack), with_settings(base_game(plan, attack), **value.game))
            for attack, value in given
        ]
        here = [one for one, value in zip(plays, values, strict=True) if not value.population]
        own = vary(plan, attacks=_distinct([a for a, _ in here]), games=_distinct([g for _, g in here]))
        results = [*zip(own.plays, play(own, out, progress, jobs), strict=True)]
        others = [value for value in values if value.population]
        for (attack, game), value in zip(plays, values, strict=True):
            if value.population:
                folder = out / "analyses" / self.name / str(next(iter(value.population.values())))
                named = Numbered(progress, f"{others.index(value) + 1}/{len(others)}, {value.label}: ")
                again = vary(plan, attacks=[attack], games=[game], tables={"population": value.population})
                yield play(again, folder, named, jobs)[0]
            else:
                yield next(claims for (a, g, _), claims in results if (a, g) == (attack, game))


def _distinct(things: Sequence[Kind]) -> list[Kind]:
    return [thing for place, thing in enumerate(things) if thing not in things[:place]]
