"""Assemble an audit: scores of every run, descriptions, and what was not tested."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from fedleak.core import Capability, Observation, in_unit
from fedleak.games.game import Game
from fedleak.plan.meaning import meanings
from fedleak.plan.plan import Plan
from fedleak.plan.recorded_run import possible_controls
from fedleak.results.audit import Audit, GameFigure, GameInfo, NotRun, Score, Threat, Utility
from fedleak.results.defence_results import Effect, Promise, Promised
from fedleak.results.detail import Detail
from fedleak.score.about import federation_facts, population_facts
from fedleak.score.controls import warnings
from fedleak.score.hidden import hidden_users, under_pseudonyms
from fedleak.score.labels import described, label, settings_key
from fedleak.score.score import AttackResult, Measured, measure_all, scores_of
from fedleak.score.tradeoff import Price, tradeoffs
from fedleak.score.untested import missing_strongest, too_little, untested
from fedleak.score.users import tail_of
from fedleak.score.versions import versions
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.trace.run_facts import RunFacts
from fedleak.views.adversaries import Adversary
from fedleak.views.adversaries import describe as describe

__all__ = ["RunResult", "assemble"]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the audit (undefended, a control, or a defence) over all seeds."""

    defences: tuple[Any, ...]
    control: str | None
    deployed: bool
    adaptive: bool = False  # by a defence-aware adversary
    facts: list[RunFacts]  # one per seed
    played: Mapping[str, list[AttackResult]]  # settings_key of the attack, its game and the adversary -> one per seed


def assemble(
    plan: Plan, runs: Sequence[RunResult], seconds: float, effects: Sequence[Effect] = (), *, names: Pseudonyms
) -> Audit:
    """Score everything that was run; the first run is the undefended one. Users appear by their pseudonyms."""
    base = runs[0]
    scores, details = scored(plan, runs, names)
    first = base.facts[0]
    games = {label(game, plan.games): about(game, plan, first.silos) for game in plan.games}
    missing = missing_strongest(plan)
    return Audit(
        title=plan.title,
        story=plan.story,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        source=first.source,
        population=population_facts(plan, first),
        federation=federation_facts(plan, base),
        findings=[hidden_users(finding, names) for finding in first.findings],
        threats=[threat(adversary) for adversary in plan.adversaries],
        attacks={label(attack, plan.attacks): attack.summary for attack in plan.attacks},
        games=games,
        defences={d.name: d.summary for run in runs for d in run.defences},
        warnings=warnings(scores, {name: game.controls for name, game in games.items()}, first.findings),
        scores=scores,
        details=details,
        figures=game_figures(plan, scores),
        effects=list(effects),
        promises=[
            Promised(defence=given, promises=weakest_promises(run))
            for run in runs
            if run.control is None and not run.adaptive and (given := described(run.defences)) is not None
        ],
        tradeoffs=tradeoffs(scores, [price(run) for run in runs if run.control is None], plan.audit.target, missing)
        if plan.trace is None
        else [],
        not_run=[NotRun(adversary=who, game=game, attack=attack) for (who, game), attack in missing.items()],
        untested=[*untested(plan, first), *too_little(plan, runs)],
        plan=plan.text,
        resolved=dict(plan.resolved),
        environment=environment(seconds),
        versions=versions(plan, base.facts),
        settings={d.name: meanings(type(d)) for run in runs for d in run.defences},
    )


def scored(plan: Plan, runs: Sequence[RunResult], names: Pseudonyms) -> tuple[list[Score], list[Detail]]:
    """Scores and details of every attack on every run; an attack that was not run on every seed yet is left out."""
    scores: list[Score] = []
    details: list[Detail] = []
    every = [one for run in runs for one in _measured(plan, run)]
    # A verdict is corrected for all attacks on its question, so all are measured before the first is judged.
    tried: dict[str, list[Mapping[str, Measured]]] = {}
    for one in every:
        tried.setdefault(one.question, []).append(one.measured)
    for one in every:
        seeds = [each.seed for each in one.played]
        labels = {**one.labels, "utility": utility_of(one.run, runs[0]), "unit": plan.truth.unit}
        found = scores_of(one.measured, one.game, plan.audit.level, seeds, tried[one.question], **labels)
        scores += [limited(score, plan.limits.get(one.game.name, {}), one.run) for score in found.values()]
        null = next(iter(one.measured.values())).null
        hidden = [under_pseudonyms(each, names, plan.truth.unit) for each in one.played]
        parts = msgspec.structs.asdict(one.game.detail(hidden, found))
        tail = tail_of(plan, one.played, one.game, one.adversary)
        details.append(Detail(**one.labels, **parts, null=[float(value) for value in null], user_tail=tail))
    return scores, details


class _MeasuredAttack(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on one run, measured."""

    run: RunResult
    game: Game
    adversary: Adversary
    played: list[AttackResult]
    measured: dict[str, Measured]
    labels: dict[str, Any]

    @property
    def question(self) -> str:
        """What all attacks on one question have in common: a defence-aware attack is on the same as an unaware one."""
        asked = [self.labels[name] for name in ("adversary", "game", "defence", "control")]
        return msgspec.json.encode(asked, order="deterministic").decode()


def _measured(plan: Plan, run: RunResult) -> Iterator[_MeasuredAttack]:
    for attack, game, adversary in plan.plays:
        played = run.played.get(settings_key(attack, game, adversary), [])
        if len(played) < len(run.facts):
            continue
        yield _MeasuredAttack(
            run=run,
            game=game,
            adversary=adversary,
            played=played,
            measured=measure_all(played, game, level=plan.audit.level, permutations=plan.audit.permutations),
            labels={
                "attack": label(attack, plan.attacks),
                "adversary": adversary.name,
                "game": label(game, plan.games),
                "defence": described(run.defences),
                "adaptive": run.adaptive,
                "control": run.control,
            },
        )


def limited(score: Score, limits: Mapping[str, float], run: RunResult) -> Score:
    """A score with the plan's limit for it; only the deployed run has limits."""
    limit = limits.get(score.metric) if run.deployed else None
    return msgspec.structs.replace(score, limit=limit, exceeded=limit is not None and score.low > limit)


def about(game: Game, plan: Plan | None = None, silos: int = 0) -> GameInfo:
    """The description of a game for the report: what it asks for, where many users are behind one client."""
    unit = "user" if plan is None else plan.truth.unit
    behind = bool(silos) and unit == "user" and game.behind_question
    pooled = "A client stands for all users behind it." if silos and unit == "client" else ""
    hides = game.needs_prior is False and plan is not None and plan.trace is None and plan.population.prior != "none"
    shared = "The adversary has no prior data here: shadow clients are neither asked about nor shown." if hides else ""
    asked = behind or in_unit(game.summary, unit)
    return GameInfo(
        question=" ".join(filter(None, (asked, in_unit(game.note, unit), pooled, shared))),
        unit=unit,
        controls=list(game.controls if plan is None or plan.trace is None else possible_controls(game)),
        metrics=[metric.info for metric in game.metrics],
        multiples=game.multiples,
        legend=game.legend,
        criteria=list(getattr(game, "criteria", ())),
        prior=game.needs_prior,
    )


def game_figures(plan: Plan, scores: Sequence[Score]) -> list[GameFigure]:
    """The figures of each game for the undefended run."""
    found = []
    for game in plan.games:
        name = label(game, plan.games)
        for adversary in plan.adversaries:
            here = [
                score
                for score in scores
                if (score.game, score.adversary, score.defence, score.control) == (name, adversary.name, None, None)
            ]
            drawn = game.figures(here) if here else []
            found += [
                GameFigure(adversary=adversary.name, game=name, caption=caption, figure=figure)
                for figure, caption in drawn
            ]
    return found


def utility_of(run: RunResult, base: RunResult) -> Utility | None:
    """Mean over seeds, with the range they span; None for a recorded run."""
    values = measured_utility(run)
    if not values:
        return None
    central = [facts.centralised for facts in base.facts if facts.centralised is not None]
    near = [facts.knn for facts in base.facts if facts.knn is not None]
    return Utility(
        metric=base.facts[0].utility_metric,
        value=statistics.fmean(values),
        low=min(values),
        high=max(values),
        higher_is_better=base.facts[0].higher_is_better,
        undefended=statistics.fmean(measured_utility(base)) if run.defences else None,
        centralised=statistics.fmean(central) if central else None,
        knn=statistics.fmean(near) if near else None,
        chance=statistics.fmean(facts.chance for facts in base.facts),
    )


def measured_utility(run: RunResult) -> list[float]:
    """The utility of every seed; none for a recorded run, whose test data nobody kept."""
    return [facts.utility for facts in run.facts if facts.utility is not None]


def price(run: RunResult) -> Price:
    """What a run cost."""
    utility = measured_utility(run)
    pairs = zip(run.facts, utility, strict=True)
    at_matched = [alone if facts.matched is None else facts.matched for facts, alone in pairs]
    return Price(
        defence=described(run.defences),
        adaptive=run.adaptive,
        utility=utility,
        constant=[facts.chance for facts in run.facts],
        matched=at_matched if any(facts.matched is not None for facts in run.facts) else None,
        steps=[facts.local_steps for facts in run.facts],
        epsilon=stated_epsilon(run),
        seconds=[facts.client_seconds for facts in run.facts if facts.client_seconds is not None],
    )


def weakest_promises(run: RunResult) -> list[Promise]:
    """What the defences promise in the seed where it is least: the largest epsilons; canaries were run in the first."""
    weakest = max((facts.promises for facts in run.facts), key=lambda all_of: sum(p.epsilon or 0.0 for p in all_of))
    return [
        msgspec.structs.replace(
            promise,
            tested=tested.tested,
            tested_delta=tested.tested_delta,
            shown=tested.shown,
            most=tested.most,
            shown_over_run=tested.shown_over_run,
            one_run=tested.one_run,
            contradicted=tested.contradicted,
        )
        for promise, tested in zip(weakest, run.facts[0].promises, strict=True)
    ]


def stated_epsilon(run: RunResult) -> float | None:
    """The epsilon that holds in every seed; None where none is stated, or for records here and for clients there."""
    stated = [[p for p in facts.promises if p.epsilon is not None] for facts in run.facts]
    if not all(stated) or len({p.unit for promises in stated for p in promises}) > 1:
        return None
    return max(min(p.epsilon for p in promises if p.epsilon is not None) for promises in stated)


def threat(adversary: Adversary) -> Threat:
    """An adversary in words."""
    return Threat(
        name=adversary.name,
        summary=adversary.summary,
        sees=[
            describe(observation)
            for observation in Observation
            # The finished model is the last of the snapshots.
            if observation in adversary.observations
            and not (observation is Observation.MODEL and Observation.SNAPSHOTS in adversary.observations)
        ],
        cannot_see=[describe(observation) for observation in Observation if observation not in adversary.observations],
        capabilities=[describe(power) for power in Capability if power in adversary.capabilities],
        attacks_on="model updates" if adversary.observations & _SENT else "trained model",
    )


_SENT = Observation.UPDATES | Observation.AGGREGATE


def environment(seconds: float) -> dict[str, str]:
    """Versions and machine, as far as they affect the numbers."""
    packages = ("fedleak", "torch", "numpy", "scipy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "seconds": f"{seconds:.0f}",
    }
