"""A sweep: every defence of a plan at every strength against every attack and seed, scheduled as one job.

A cell is one federation with all attacks on it. Cells are independent of each other and are distributed over the
cores; one that fails does not stop the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedleak.errors import FedleakError, PlanError
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import attack_run, is_played
from fedleak.pipeline.jobs import Progress, Tick, deserialise_plan, run_jobs, serialise_plan, share_cores
from fedleak.pipeline.output import working_in
from fedleak.pipeline.runs import Run, facts, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse, toml
from fedleak.report import results_file
from fedleak.results.audit import Audit
from fedleak.results.defence_results import Failure
from fedleak.sandbox.process import remove_stale, start_zygote
from fedleak.score.labels import described

__all__ = ["sweep", "over"]

_PLAY = 0.1  # weight of an attack in the progress bar, relative to training


def over(plan: Plan, grids: Mapping[tuple[str, str], list[Any]]) -> Plan:
    """The plan with additional defences: for each (defence, setting), one per value.

    Settings of one defence are combined (grid search).
    """
    tables: dict[str, dict[str, Any]] = {}
    for (name, key), values in grids.items():
        tables.setdefault(name, {"name": name})[key] = values
    raw = merged(toml(plan.text, plan.source), plan.change)
    change = {"defence": [*raw.get("defence", []), *tables.values()]}
    return parse(plan.text, plan.source, merged(plan.change, change))


def sweep(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> Audit:
    """Train and attack every cell that is not done yet, and compare what each defence prevents and costs."""
    if not plan.defences:
        raise PlanError(
            f"{plan.source}: a sweep needs a defence: add a [[defence]] with a list of strengths, for instance "
            "name = 'noise', sigma = [1.0, 5.0], or --over noise.sigma=1,5"
        )
    every = runs(plan, out)
    with working_in(plan, out):
        for run in every:
            remove_stale(run.attacked)
        cells: dict[Path, list[int]] = {}
        for index, run in enumerate(every):
            cells.setdefault(run.folder, []).append(index)
        todo = [indices for indices in cells.values() if any(_open(plan, every[i]) for i in indices)]
        progress.stage(f"Sweeping {len(todo)} cells", sum(_units(plan, [every[i] for i in one]) for one in todo))
        processes, workers = share_cores(len(todo), jobs)
        cell_jobs = [(cell_job, (*serialise_plan(plan), str(out), one, workers)) for one in todo]
        failed = run_jobs(cell_jobs, processes, progress.tick, keep_going=True, first=start_zygote)
    failures = [_failure(every[todo[place][0]], why) for place, why in failed.items()]
    if all(facts(run) is None for run in every if run.variant.label == "plain"):
        raise FedleakError(f"the undefended federation failed, so there is nothing to compare with: {failures[0].why}")
    result = msgspec.structs.replace(stages.score(plan, out, progress, partial=True), failures=failures)
    results_file.write(result, out)
    stages.report(result, out)
    return result


def cell_job(text: str, change: bytes, out: str, indices: list[int], workers: int, tick: Tick) -> None:
    """Train one federation and run all attacks on it, in a worker process; a failed attack does not stop the others."""
    plan = deserialise_plan(text, change)
    cell = [runs(plan, Path(out))[index] for index in indices]
    train_run(plan, next(run for run in cell if run.variant.trained), tick, workers)
    troubles, unit = [], _PLAY * plan.federation.rounds
    for run in cell:
        for play in run.variant.plays(plan) if run.variant.played else []:
            try:
                attack_run(run, *play, lambda share: tick(share * unit), workers=workers)
            except FedleakError as error:
                troubles.append(f"{play[0].name}: {error}")
    if troubles:
        raise FedleakError("; ".join(troubles))


def _failure(run: Run, why: str) -> Failure:
    adaptive = run.variant.adaptive is not None
    return Failure(defence=described(run.variant.defences), adaptive=adaptive, seed=run.seed, why=why)


def _open(plan: Plan, run: Run) -> bool:
    """Whether a run is unfinished."""
    if facts(run) is None:
        return True
    return run.variant.played and any(not is_played(run, *play) for play in run.variant.plays(plan))


def _units(plan: Plan, cell: list[Run]) -> float:
    plays = sum(len(run.variant.plays(plan)) for run in cell if run.variant.played)
    return plan.federation.rounds * (1 + _PLAY * plays)
