"""Collect the results that the runs of a plan have on disk, for scoring."""

from __future__ import annotations

from collections.abc import Sequence

from fedleak.errors import TraceError
from fedleak.federation.hooks import hidden
from fedleak.pipeline.attack_runner import is_played, played
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.runs import Run, facts
from fedleak.plan.plan import Plan
from fedleak.results.audit import Untested
from fedleak.results.defence_results import Effect
from fedleak.score.assemble import RunResult, described, settings_key
from fedleak.score.effects import effect

__all__ = ["collect", "unplayed", "effects"]


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


def unplayed(plan: Plan, results: Sequence[RunResult]) -> list[Untested]:
    """Report how many attacks of the plan have not run yet."""
    missing = sum(len(claims) < len(plan.seeds) for result in results for claims in result.played.values())
    if not missing:
        return []
    return [Untested(what=f"{missing} attacks of the plan", why="not run yet; `fedleak audit` runs them")]


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
