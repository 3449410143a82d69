"""What an analysis is, and what the analyses share: variations of a plan, and running its attacks.

An analysis belongs to the auditor, so it may use the truth. Where it runs an attack, it changes the plan and lets the
pipeline run it: through a view, in a game, with predictions kept on disk like those of an audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, cast

from msgspec import Meta

from fedleak.attacks.attack import Attack
from fedleak.errors import PlanError, did_you_mean
from fedleak.games.game import Game
from fedleak.metrics.metric import Metric
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import played
from fedleak.pipeline.output import save_analysis
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse
from fedleak.results.audit import Analysis
from fedleak.score.score import AttackResult, Measured, measure

__all__ = [
    "Analyser",
    "BaseAnalysis",
    "SingleAttackAnalysis",
    "Numbered",
    "analyse",
    "check",
    "base_game",
    "closing",
    "has_setting",
    "measured",
    "play",
    "trained",
    "vary",
    "with_settings",
]

Configured = TypeVar("Configured")


class Analyser(Protocol):
    """A frozen dataclass of an analysis's settings."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words

    def check(self, plan: Plan) -> None:
        """Reject a plan that cannot be analysed, before hours of training."""
        ...

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Train and attack what is missing in the folder, and return the result; the plan has been checked."""
        ...


class BaseAnalysis:
    """What every analysis inherits."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def check(self, plan: Plan) -> None:
        """Accept any plan."""


@dataclass(frozen=True, kw_only=True)
class SingleAttackAnalysis(BaseAnalysis):
    """An analysis of one attack of the plan that names senders."""

    needs_layer: ClassVar[bool] = False  # whether it has to be an attack on one layer

    attack: Annotated[str, Meta(description="which attack of the plan; the first that fits if absent")] | None = None

    def check(self, plan: Plan) -> None:
        """Reject a plan without such an attack."""
        self.chosen(plan)

    def chosen(self, plan: Plan) -> Attack:
        """The attack that the analysis is about."""
        # A game with labelled updates asks for the sender of the other updates.
        naming = [attack for attack in plan.attacks if has_setting(base_game(plan, attack), "labelled")]
        known = [attack.name for attack in naming]
        if self.attack is not None and self.attack not in known:
            near = did_you_mean(self.attack, known)
            raise PlanError(f"analysis '{self.name}': the plan has no attack '{self.attack}'{near}")
        able = [attack for attack in naming if self.attack in (None, attack.name)]
        if not able:
            raise PlanError(
                f"analysis '{self.name}' needs an attack that names senders, for instance [[attack]] reid-mlp"
            )
        for attack in able:
            if has_setting(attack, "layer") or not self.needs_layer:
                return attack
        raise PlanError(
            f"analysis '{self.name}' needs an attack on one layer, but '{able[0].name}' has no setting "
            "`layer`; choose another with --set attack=NAME, or add one to the plan, for instance [[attack]] reid-mlp"
        )


def check(plan: Plan) -> None:
    """Reject an analysis of the plan that would otherwise fail after hours of training."""
    for look in plan.analyses:
        look.check(plan)


def analyse(look: Analyser, plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> Analysis:
    """Run an analysis, save it, and rewrite the results and the report with it.

    Attacks of the plan that have not run yet stay unscored: an analysis trains only the undefended run.
    """
    look.check(plan)
    found = look.run(plan, out, progress, jobs)
    save_analysis(found, out)
    stages.report(stages.score(plan, out, progress, partial=True), out)
    return found


def has_setting(configured: Any, name: str) -> bool:
    """Whether an attack or a game can be given a setting of this name."""
    return name in {field.name for field in fields(configured)}


def with_settings(configured: Configured, **settings: Any) -> Configured:
    """The same attack or game with other settings."""
    return cast(Configured, replace(cast(Any, configured), **settings))


def base_game(plan: Plan, attack: Attack) -> Game:
    """The first game of an attack."""
    return next(game for one, game, _ in plan.plays if one == attack)


def vary(
    plan: Plan,
    *,
    attacks: Sequence[Attack],
    games: Sequence[Game],
    controls: Sequence[str] = (),
    tables: Mapping[str, Mapping[str, Any]] | None = None,
) -> Plan:
    """The plan's undefended run with these attacks and games; `tables` change what is trained.

    It remains a plan, text and change, so that worker processes can read it and the pipeline is not duplicated. Each
    attack is run as the first adversary of the plan that can run it.
    """
    able = [next(one.name for one in plan.adversaries_of(a.game) if not one.missing(a)) for a in attacks]
    change: dict[str, Any] = {
        "attack": [to_dict(attack) for attack in attacks],
        "game": [to_dict(game) for game in games],
        "defence": [],
        "audit": {"adversaries": list(dict.fromkeys(able)), "controls": list(controls)},
    }
    if plan.trace is None:  # stated: another game of the plan may be why there is a prior
        change["population"] = {"prior": plan.population.prior}
    if tables:  # baselines for utility are not trained again: the plan's own federation has them
        change = merged(change, merged({"federation": {"centralised": False}}, tables))
    return parse(plan.text, plan.source, merged(plan.change, change))


class Numbered:
    """Prefixes every stage with the variation that it belongs to."""

    def __init__(self, progress: Progress, prefix: str) -> None:
        self.progress, self.prefix = progress, prefix

    def stage(self, text: str, units: float) -> None:
        """Begin a stage."""
        self.progress.stage(self.prefix + text[:1].lower() + text[1:], units)

    def tick(self, units: float) -> None:
        """Report finished units."""
        self.progress.tick(units)


def trained(plan: Plan, out: Path, progress: Progress, jobs: int | None, *, controls: Sequence[str] = ()) -> list[Run]:
    """The runs of the plan's undefended federation, trained to the end, one for each seed."""
    varied = vary(plan, attacks=plan.attacks, games=plan.games, controls=controls)
    stages.train(varied, out, progress, jobs)
    return runs(varied, out)


def play(plan: Plan, out: Path, progress: Progress, jobs: int | None) -> list[list[AttackResult]]:
    """Train and attack what is missing; return the predictions of every attack of the plan, over its seeds."""
    stages.train(plan, out, progress, jobs)
    stages.attack(plan, out, progress, jobs)
    every = runs(plan, out)
    return [[played(run, *one) for run in every] for one in plan.plays]


def measured(plan: Plan, claims: Sequence[AttackResult], metric: Metric) -> Measured:
    """A metric with its interval over users and its chance level, as an audit measures it."""
    return measure(claims, metric, level=plan.audit.level, permutations=plan.audit.permutations)


def closing(plan: Plan, attack: str = "", *, permuted: bool = True) -> str:
    """The last sentence of every text: attack, adversary, and what intervals and chance mean."""
    players = [who.name for one, _, who in plan.plays if one.name == attack]
    who = f"Attack {attack} as {players[0]}; the" if players else "The"
    seeds = f"seed {plan.seeds[0]}" if len(plan.seeds) == 1 else f"seeds {', '.join(map(str, plan.seeds))}"
    return f"{who} undefended federation, {seeds}; intervals of {plan.audit.level:.0%} resample users" + (
        "; chance is the same number with identities permuted." if permuted else "."
    )
