"""What an analysis is, and what the analyses share: variations of a plan, running its attacks, curves with chance.

An analysis belongs to the auditor, so it may use the truth. Where it runs an attack, it changes the plan and lets the
pipeline run it: through a view, in a game, with predictions kept on disk like those of an audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from msgspec import Meta

from fedleak.core import format_interval, format_value
from fedleak.errors import PlanError, did_you_mean
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import played
from fedleak.pipeline.output import save_analysis
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse
from fedleak.score.result import Analysis, Series
from fedleak.score.score import AttackResult, Measured, measure

__all__ = [
    "Analyser",
    "Numbered",
    "SingleAttackAnalysis",
    "Point",
    "analyse",
    "check",
    "base_game",
    "chosen",
    "closing",
    "curve",
    "doubling",
    "measured",
    "otherwise",
    "play",
    "format_measured",
    "table",
    "vary",
]

COLUMNS = ["AP", "low", "high", "chance", "times chance", "users"]


class Analyser(Protocol):
    """A frozen dataclass of an analysis's settings."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Train and attack what is missing in the folder, and return the result."""
        ...


@dataclass(frozen=True, kw_only=True)
class SingleAttackAnalysis:
    """An analysis of one attack of the plan."""

    attack: Annotated[str, Meta(description="which attack of the plan; the first that fits if absent")] | None = None


def check(plan: Plan) -> None:
    """Reject an analysis of the plan that would otherwise fail after hours of training.

    Only an analysis that changes the plan has something to check in advance, and then a method of this name.
    """
    for look in plan.analyses:
        if hasattr(look, "check"):
            look.check(plan)


def analyse(look: Analyser, plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> Analysis:
    """Run an analysis, save it, and rewrite the results and the report with it.

    Attacks of the plan that have not run yet stay unscored: an analysis trains only the undefended run.
    """
    found = look.run(plan, out, progress, jobs)
    save_analysis(found, out)
    stages.report(stages.score(plan, out, progress, partial=True), out)
    return found


def chosen(plan: Plan, look: str, name: str | None, *, layered: bool = False) -> Any:
    """The attack that an analysis is about: the first of the plan that names senders, or the one asked for."""
    able = [attack for attack in plan.attacks if attack.game == "identify"]
    if name is not None:
        known = [attack.name for attack in able]
        if name not in known:
            raise PlanError(f"analysis '{look}': the plan has no attack '{name}'{did_you_mean(name, known)}")
        able = [attack for attack in able if attack.name == name]
    if not able:
        raise PlanError(f"analysis '{look}' needs an attack that names senders, for instance [[attack]] reid-mlp")
    fitting = [attack for attack in able if hasattr(attack, "layer") or not layered]
    if not fitting:
        raise PlanError(
            f"analysis '{look}' needs an attack on one layer, but '{able[0].name}' has no setting `layer`; "
            "choose another with --set attack=NAME, or add one to the plan, for instance [[attack]] reid-mlp"
        )
    return fitting[0]


def base_game(plan: Plan, attack: Any) -> Any:
    """The first of the games that an attack plays."""
    return next(game for game in plan.games if game.name == attack.game)


def vary(
    plan: Plan, *, attacks: Sequence[Any], games: Sequence[Any], controls: Sequence[str] = (), **tables: Any
) -> Plan:
    """The plan's undefended run with these attacks and games; `tables` change what is trained.

    It remains a plan, text and change, so that worker processes can read it and the pipeline is not duplicated. Each
    attack is run as the first adversary of the plan that can run it.
    """
    able = [next(adversary.name for adversary in plan.adversaries if not adversary.missing(a)) for a in attacks]
    change = {
        "attack": [to_dict(attack) for attack in attacks],
        "game": [to_dict(game) for game in games],
        "defence": [],
        "audit": {"adversaries": list(dict.fromkeys(able)), "controls": list(controls)},
        **tables,
    }
    return parse(plan.text, plan.source, merged(plan.change, change))


def otherwise(plan: Plan, *, attacks: Sequence[Any], games: Sequence[Any], **tables: Any) -> Plan:
    """The same for a federation that is trained differently, in its own folder.

    Baselines for utility are not trained again: the plan's own federation has them.
    """
    federation = {"centralised": False, **tables.pop("federation", {})}
    return vary(plan, attacks=attacks, games=games, federation=federation, **tables)


class Numbered:
    """Says before every stage which of several variations it belongs to."""

    def __init__(self, progress: Progress, prefix: str) -> None:
        self.progress, self.prefix = progress, prefix

    def stage(self, text: str, units: float) -> None:
        """A stage begins."""
        self.progress.stage(self.prefix + text[:1].lower() + text[1:], units)

    def tick(self, units: float) -> None:
        """Some units are done."""
        self.progress.tick(units)


def play(plan: Plan, out: Path, progress: Progress, jobs: int | None) -> list[list[AttackResult]]:
    """Train and attack what is missing; return the predictions of every attack of the plan, over its seeds."""
    stages.train(plan, out, progress, jobs)
    stages.attack(plan, out, progress, jobs)
    every = runs(plan, out)
    return [[played(run, *one) for run in every] for one in plan.plays]


def measured(plan: Plan, claims: Sequence[AttackResult], metric: str = "ap") -> Measured:
    """A metric with its interval over users and its chance level, as an audit measures it."""
    return measure(claims, metric, level=plan.audit.level, permutations=plan.audit.permutations)


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve: its position, its label, and what was measured there."""

    x: float
    label: str
    measured: Measured


def curve(name: str, points: Sequence[Point], *, chance: str = "chance") -> list[Series]:
    """A line with intervals, and its chance level beside it."""
    x, labels = [point.x for point in points], [point.label for point in points]
    return [
        Series(
            name=name,
            x=x,
            y=[point.measured.value for point in points],
            low=[point.measured.low for point in points],
            high=[point.measured.high for point in points],
            labels=labels,
        ),
        Series(name=chance, x=x, y=[point.measured.chance for point in points], reference=True),
    ]


def table(points: Sequence[Point]) -> list[list[str | float | None]]:
    """The same as rows under COLUMNS, after the label."""
    return [[point.label, *numbers(point.measured)] for point in points]


def numbers(found: Measured) -> list[str | float | None]:
    """What was measured, in the order of COLUMNS."""
    times = found.value / found.chance if found.chance > 0 else None
    return [found.value, found.low, found.high, found.chance, times, found.users]


def format_measured(found: Measured) -> str:
    """A measured number in a sentence: `0.41 [0.36, 0.47], chance 0.02`."""
    return f"{format_interval(found.value, found.low, found.high)}, chance {format_value(found.chance)}"


def closing(plan: Plan, attack: Any | None = None, *, permuted: bool = True) -> str:
    """The last sentence of every text: attack, adversary, and what intervals and chance mean."""
    who = f"Attack {attack.name} as {plan.adversaries[0].name}; the" if attack is not None else "The"
    seeds = f"seed {plan.seeds[0]}" if len(plan.seeds) == 1 else f"seeds {', '.join(map(str, plan.seeds))}"
    return f"{who} undefended federation, {seeds}; intervals of {plan.audit.level:.0%} resample users" + (
        "; chance is the same number with identities permuted." if permuted else "."
    )


def doubling(most: float) -> list[int]:
    """1, 2, 4, ... below a number.

    >>> doubling(20), doubling(4)
    ([1, 2, 4, 8, 16], [1, 2])
    """
    return [2**power for power in range(int(np.ceil(np.log2(max(most, 1)))))]
