"""How much prior data does the adversary need, and how similar to the private data must it be?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import (
    COLUMNS,
    Numbered,
    Point,
    SingleAttackAnalysis,
    base_game,
    chosen,
    closing,
    curve,
    doubling,
    format_measured,
    measured,
    otherwise,
    play,
    table,
    vary,
)
from fedleak.errors import DataError
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.population.prepare import prepare
from fedleak.population.splits import PriorName
from fedleak.score.result import Analysis, Figure
from fedleak.score.score import Measured
from fedleak.trace.prior import Prior

__all__ = ["PriorSize", "Priors"]


@dataclass(frozen=True, kw_only=True)
class PriorSize(SingleAttackAnalysis):
    """Give the adversary 1, 2, 4, ... prior examples of each user (Orekondy et al., 2020, Figure 7)."""

    name: ClassVar[str] = "prior-size"
    summary: ClassVar[str] = "How many prior examples of each user does the adversary need?"

    sizes: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="how many, each in turn; 1, 2, 4, ... if empty")
    ] = ()

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision over the number of prior examples; each number needs a federation of its own."""
        attack = chosen(plan, self.name, self.attack)
        once = vary(plan, attacks=[attack], games=[base_game(plan, attack)])
        whole = measured(plan, play(once, out, progress, jobs)[0])
        known = [len(examples) for run in runs(once, out) for examples in Prior.load(run.folder / "prior").examples]
        most = float(np.mean(known))
        sizes = self.sizes or tuple(doubling(most))
        points = []
        for place, size in enumerate(sizes, 1):
            named = Numbered(progress, f"{place}/{len(sizes)}, {size} prior examples: ")
            found = trained_otherwise(
                plan, attack, out / "analyses" / self.name / str(size), named, jobs, {"prior_examples": size}
            )
            points.append(Point(float(size), f"at most {size}", found))
        points.append(Point(most, f"as planned (mean {most:.1f})", whole))
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "Shadow clients train on a limited number of prior examples of each user, and the federation is "
                f"trained again for each number. With {points[0].label} the attack reaches average precision "
                f"{format_measured(points[0].measured)}; with {most:.1f} on average, {format_measured(whole)}. "
                f"{closing(plan, attack)}"
            ),
            columns=["prior examples", *COLUMNS],
            rows=table(points),
            figures=[
                Figure(
                    kind="lines",
                    title="Average precision over the number of prior examples of each user",
                    x_label="prior examples of each user",
                    y_label="average precision",
                    series=curve(attack.name, points),
                    log_x=True,
                )
            ],
        )


@dataclass(frozen=True, kw_only=True)
class Priors(SingleAttackAnalysis):
    """Divide users' data into prior and private in every way that it allows (Orekondy et al., 2020, Table 3)."""

    name: ClassVar[str] = "priors"
    summary: ClassVar[str] = "Does it help the adversary if its prior is from the same time or occasion?"

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Average precision for every prior; one that the data has no column for is left out by name."""
        attack = chosen(plan, self.name, self.attack)
        every = [way for way in get_args(PriorName) if way != "none"]
        ways = sorted(every, key=lambda way: way != plan.population.prior)  # the plan's own first
        points: list[Point] = []
        left_out: list[str] = []
        for place, way in enumerate(ways, 1):
            named = Numbered(progress, f"{place}/{len(ways)}, {way} prior: ")
            if way == plan.population.prior:
                once = vary(plan, attacks=[attack], games=[base_game(plan, attack)])
                found = measured(plan, play(once, out, named, jobs)[0])
            elif reason := impossible(plan, way):
                left_out.append(f"The {way} prior is left out: {reason}.")
                continue
            else:
                found = trained_otherwise(
                    plan, attack, out / "analyses" / self.name / way, named, jobs, {"prior": way, "split": "auto"}
                )
            points.append(Point(len(points), way, found))
        results = "; ".join(f"{point.label} {format_measured(point.measured)}" for point in points)
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "What the adversary knows is divided from what stays private at random, older from newer (chrono), or "
                "by occasion (album); the federation is trained again for each. Average precision: "
                f"{results}. {' '.join([*left_out, closing(plan, attack)])}"
            ),
            columns=["prior", *COLUMNS],
            rows=table(points),
            figures=[
                Figure(
                    kind="bars",
                    title="Average precision by the kind of prior",
                    x_label="prior",
                    y_label="average precision",
                    x_ticks=[point.label for point in points],
                    series=curve(attack.name, points),
                )
            ],
        )


def impossible(plan: Plan, way: PriorName) -> str | None:
    """Why users' data cannot be divided in this way; None if it can."""
    users = plan.dataset.load(plan.seeds[0]).users
    column = {"chrono": "time", "album": "album"}.get(way)
    if column and all(getattr(user.examples, column) is None for user in users):
        return f"the data set does not give the {column} of an example"
    try:
        for seed in plan.seeds:
            prepare(plan.dataset, replace(plan.population, prior=way, split="auto"), seed)
    except DataError as error:
        return str(error).rstrip(".")
    return None


def trained_otherwise(
    plan: Plan, attack: Any, folder: Path, progress: Progress, jobs: int | None, population: Mapping[str, Any]
) -> Measured:
    """The attack on a federation trained with other users' data settings, in a folder of its own."""
    other = otherwise(plan, attacks=[attack], games=[base_game(plan, attack)], population=dict(population))
    return measured(plan, play(other, folder, progress, jobs)[0])
