"""Checks of a plan's defences that need one round of training and no attack."""

from __future__ import annotations

from pathlib import Path

from fedleak.errors import PlanError
from fedleak.federation.promises import promises
from fedleak.pipeline import stages
from fedleak.pipeline.collect import effects
from fedleak.pipeline.jobs import Progress
from fedleak.pipeline.runs import facts, runs
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse
from fedleak.results.defence_results import Effect, Promised
from fedleak.score.labels import described
from fedleak.trace.reader import Trace

__all__ = ["check_defences"]


def check_defences(
    plan: Plan, folder: Path, progress: Progress, jobs: int | None = None
) -> tuple[list[Effect], list[Promised]]:
    """Train one round of every client with and without each defence; return what each changes and states.

    Stated epsilons are for the whole plan, with all of its rounds.
    """
    if not plan.defences:
        raise PlanError(f"{plan.source}: has no [[defence]] to check")
    change = {
        "seeds": [plan.seeds[0]],
        "federation": {"rounds": 1, "fraction": 1.0, "centralised": False},
        "audit": {"adaptive": False, "controls": []},
        "analysis": [],
    }
    brief = parse(plan.text, plan.source, merged(plan.change, change))
    stages.train(brief, folder, progress, jobs)
    every = runs(brief, folder)
    promised = []
    for run in every:
        named = described(run.variant.defences)
        if named is None or facts(run) is None:
            continue
        trace = Trace.open(run.folder / "trace")
        given = promises(
            run.variant.defences,
            plan.federation,
            len(trace.header.clients),
            trace.size.tolist(),
            run.seed,
            canaries=True,
        )
        promised.append(Promised(defence=named, promises=given))
    return effects(every), promised
