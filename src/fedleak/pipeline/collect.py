"""Collect the results that the runs of a plan have on disk, for scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedleak.errors import TraceError
from fedleak.federation.hooks import hidden
from fedleak.pipeline.attack_runner import how_it_ran, is_played, played
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.runs import Run, facts
from fedleak.plan.plan import Plan
from fedleak.results.audit import Untested
from fedleak.results.defence_results import Effect
from fedleak.sandbox.process import UNCONFINED
from fedleak.score.assemble import RunResult
from fedleak.score.effects import effect
from fedleak.score.labels import described, label, settings_key

__all__ = ["collect", "isolation", "seconds", "open_attacks", "unplayed", "effects"]


def collect(plan: Plan, every: Sequence[Run], tick: Tick, *, partial: bool = False) -> list[RunResult]:
    """The results of each variant over all seeds: the facts of its runs, and the predictions of each attack.

    With `partial`, untrained runs and attacks that have not run are skipped; otherwise they raise an error.
    """
    results: dict[str, RunResult] = {}
    for run in every:
        found = facts(run)
        if found is None and not partial:
            raise TraceError(f"{run.folder} is not trained to the end; run `fedleak train` first")
        result = results.setdefault(
            run.variant.label,
            RunResult(
                defences=run.variant.defences,
                control=run.variant.control,
                deployed=run.variant.deployed,
                facts=[],
                adaptive=run.variant.adaptive is not None,
                played={settings_key(*play): [] for play in run.variant.plays(plan)},
            ),
        )
        if found is not None:
            result.facts.append(found)
            for play in run.variant.plays(plan):
                if not partial or is_played(run, *play):
                    result.played[settings_key(*play)].append(played(run, *play))
        tick(1)
    return list(results.values())


def isolation(plan: Plan, every: Sequence[Run]) -> dict[str, str]:
    """What confined each attack, by its label; the least that held in any run."""
    found: dict[str, list[str]] = {}
    for run in every:
        for attack, game, adversary in run.variant.plays(plan) if run.variant.played else []:
            if (ran := how_it_ran(run, attack, game, adversary)) is not None:
                found.setdefault(label(attack, plan.attacks), []).append(ran.isolation)
    return {name: next(filter(is_open, hows), hows[0]) for name, hows in found.items()}


def seconds(plan: Plan, every: Sequence[Run]) -> dict[str, float]:
    """The computing time of each attack on one undefended run, by its label; the longest of all seeds."""
    found: dict[str, float] = {}
    for run in every:
        for attack, game, adversary in run.variant.plays(plan) if run.variant.label == "plain" else []:
            ran = how_it_ran(run, attack, game, adversary)
            if ran is not None and ran.seconds is not None:
                name = label(attack, plan.attacks)
                found[name] = max(found.get(name, 0.0), round(ran.seconds, 1))
    return found


def is_open(isolation: str) -> bool:
    """Whether an attack could read more than it was given."""
    return isolation == UNCONFINED or isolation.startswith("none")


def open_attacks(isolated: Mapping[str, str]) -> list[str]:
    """A warning for attacks that were not confined."""
    loose = [name for name, how in isolated.items() if is_open(how)]
    if not loose:
        return []
    why = "; ".join(dict.fromkeys(_WHY.get(isolated[name], isolated[name]) for name in loose))
    return [
        f"Not confined: {', '.join(loose)} could have read the answers ({why}). Rely on these scores only if you trust "
        "the code of the attack."
    ]


_WHY = {UNCONFINED: "this system offers no Landlock and seccomp"}


def unplayed(plan: Plan, results: Sequence[RunResult]) -> list[Untested]:
    """Report how many attacks of the plan have not run yet."""
    missing = sum(len(claims) < len(plan.seeds) for result in results for claims in result.played.values())
    if not missing:
        return []
    return [
        Untested(what=f"{missing} attacks of the plan", why="not run yet", needs="`fedleak audit`, which runs them")
    ]


def effects(every: Sequence[Run]) -> list[Effect]:
    """What each defence changes, measured on the first seed, wherever both runs are trained."""
    bare = next((run for run in every if run.variant.label == "plain" and facts(run) is not None), None)
    found = []
    for run in every:
        described_as = described(run.variant.defences)
        if bare is None or run.seed != bare.seed or run.variant.adaptive or described_as is None or facts(run) is None:
            continue
        hides = hidden(run.variant.defences)
        found.append(effect(bare.folder / "trace", run.folder / "trace", described_as, hides))
    return found
