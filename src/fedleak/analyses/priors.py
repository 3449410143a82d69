"""How much prior data does the adversary need, and how similar to the private data must it be?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from fedleak.analyses.curves import Point, doubling, format_measured
from fedleak.analyses.sweep_analysis import Counts, Scale, Subject, SweepAnalysis, Variation
from fedleak.errors import DataError
from fedleak.plan.plan import Plan
from fedleak.population.prepare import prepare
from fedleak.population.splits import PriorName
from fedleak.trace.prior import Prior

__all__ = ["PriorSize", "Priors"]

WAYS: tuple[PriorName, ...] = tuple(way for way in get_args(PriorName) if way != "none")


@dataclass(frozen=True, kw_only=True)
class PriorSize(SweepAnalysis):
    """Give the adversary 1, 2, 4, ... prior examples of each user (Orekondy et al., 2020, Figure 7)."""

    name: ClassVar[str] = "prior-size"
    summary: ClassVar[str] = "How many prior examples of each user does the adversary need?"
    columns: ClassVar[tuple[str, ...]] = ("prior examples",)
    heading: ClassVar[str] = "Average precision over the number of prior examples of each user"
    x_label: ClassVar[str] = "prior examples of each user"
    scale: ClassVar[Scale] = "log"

    sizes: Counts = ()

    def variations(self, subject: Subject) -> list[Variation]:
        """Each number needs its own federation; the plan's comes last."""
        priors = [Prior.load(run.folder / "prior") for run in subject.runs]
        most = float(np.mean([len(examples) for prior in priors for examples in prior.examples]))
        return [
            *(
                Variation(x=float(size), label=f"at most {size}", population={"prior_examples": size})
                for size in self.sizes or doubling(most)
            ),
            Variation(x=most, label=f"as planned (mean {most:.1f})"),
        ]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """The result with the fewest, and as planned."""
        few, planned = points[0], points[-1]
        return (
            "Shadow clients train on a limited number of prior examples of each user, and the federation is "
            f"trained again for each number. With {few.label} the attack reaches average precision "
            f"{format_measured(few.measured)}; with {planned.x:.1f} on average, {format_measured(planned.measured)}."
        )


@dataclass(frozen=True, kw_only=True)
class Priors(SweepAnalysis):
    """Divide users' data into prior and private in every way that it allows (Orekondy et al., 2020, Table 3)."""

    name: ClassVar[str] = "priors"
    summary: ClassVar[str] = "Does it help the adversary if its prior is from the same time or occasion?"
    columns: ClassVar[tuple[str, ...]] = ("prior",)
    heading: ClassVar[str] = "Average precision by the kind of prior"
    x_label: ClassVar[str] = "prior"
    kind: ClassVar[Literal["lines", "bars"]] = "bars"
    scale: ClassVar[Scale] = "names"

    def variations(self, subject: Subject) -> list[Variation]:
        """The plan's own prior, and every other that the data allows."""
        own = subject.plan.population.prior
        others = [way for way in WAYS if way != own and impossible(subject.plan, way) is None]
        return [
            Variation(x=place, label=way, population={"prior": way, "split": "auto"} if place else {})
            for place, way in enumerate([own, *others])
        ]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """The result of every prior, and why the others are left out."""
        tried = [point.label for point in points]
        reasons = {way: impossible(subject.plan, way) for way in WAYS if way not in tried}
        return (
            "What the adversary knows is divided from what stays private at random, older from newer (chrono), or "
            "by occasion (album); the federation is trained again for each. Average precision: "
            + "; ".join(f"{point.label} {format_measured(point.measured)}" for point in points)
            + "."
            + "".join(f" The {way} prior is left out: {reason}." for way, reason in reasons.items())
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
