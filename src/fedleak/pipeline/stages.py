"""The whole flow: train the federations of a plan, run attacks on them, score the predictions, write the report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fedleak.errors import TraceError
from fedleak.federation.hooks import hidden
from fedleak.pipeline.attack_runner import attack_run, is_played, played
from fedleak.pipeline.jobs import cores, run_jobs
from fedleak.pipeline.output import add_elapsed, analyses, ensure_owned
from fedleak.pipeline.runs import Run, Tick, facts, runs
from fedleak.pipeline.training import train_run
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.report import html, results_file
from fedleak.score.assemble import RunResult, assemble, described, settings_key
from fedleak.score.defence_results import Effect
from fedleak.score.effects import effect
from fedleak.score.result import Audit, Untested
from fedleak.trace.lock import locked

__all__ = ["Progress", "audit", "train", "attack", "score", "report"]


class Progress(Protocol):
    """Receives each stage and the progress within it."""

    def stage(self, text: str, units: float) -> None:
        """Begin a stage with this many units of work."""
        ...

    def tick(self, units: float) -> None:
        """Report finished units."""
        ...


def audit(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> Audit:
    """Run everything in a plan, resuming an earlier attempt."""
    train(plan, out, progress, jobs)
    attack(plan, out, progress, jobs)
    result = score(plan, out, progress)
    report(result, out)
    return result


def train(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> None:
    """Train every federation of the plan that is not trained yet."""
    ensure_owned(plan, out)
    with locked(out):
        started = time.monotonic()
        todo = [i for i, run in enumerate(runs(plan, out)) if run.variant.trained and facts(run) is None]
        progress.stage(f"Training {len(todo)} federations", len(todo) * plan.federation.rounds)
        processes = jobs or cores()
        # Runs parallelise best; cores that no run needs are used for the clients inside one.
        workers = max(1, processes // max(1, len(todo)))
        run_jobs([(train_job, (*serialise_plan(plan), str(out), i, workers)) for i in todo], processes, progress.tick)
        add_elapsed(out, time.monotonic() - started)


def attack(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> None:
    """Run every attack of the plan, as every adversary, on every trained federation."""
    ensure_owned(plan, out)
    with locked(out):
        started = time.monotonic()
        every = [
            (i, play)
            for i, run in enumerate(runs(plan, out))
            if run.variant.played
            for play in range(len(run.variant.plays(plan)))
        ]
        progress.stage(f"Running {len(every)} attacks", len(every))
        processes = jobs or cores()
        found = runs(plan, out)
        todo = sum(not is_played(found[i], *found[i].variant.plays(plan)[play]) for i, play in every)
        workers = max(1, processes // max(1, todo))  # as in training
        run_jobs(
            [(attack_job, (*serialise_plan(plan), str(out), *one, workers)) for one in every], processes, progress.tick
        )
        add_elapsed(out, time.monotonic() - started)


def score(plan: Plan, out: Path, progress: Progress, *, partial: bool = False) -> Audit:
    """Compare all predictions with the truth and write `results.json`, with the analyses that are on disk.

    With `partial`, attacks that have not run on every seed of a federation are left out instead of raising an error.
    """
    ensure_owned(plan, out)
    every = runs(plan, out)
    progress.stage("Scoring", len(every))
    results: dict[Any, RunResult] = {}
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
        progress.tick(1)
    whole = [result for result in results.values() if len(result.facts) == len(plan.seeds)]
    audited = assemble(plan, whole, add_elapsed(out, 0.0), effects(every))
    missing = sum(len(claims) < len(plan.seeds) for result in results.values() for claims in result.played.values())
    rest = Untested(what=f"{missing} attacks of the plan", why="not run yet; `fedleak audit` runs them")
    audited = msgspec.structs.replace(
        audited, analyses=analyses(out), untested=[rest, *audited.untested] if missing else audited.untested
    )
    results_file.write(audited, out)
    return audited


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


def report(result: Audit, out: Path) -> Path:
    """Write the HTML report."""
    path = out / "report.html"
    html.write(result, path)
    return path


def serialise_plan(plan: Plan) -> tuple[str, bytes]:
    """A plan in the form that is passed between processes: plain data only."""
    return plan.text, msgspec.json.encode(plan.change)


@cache
def deserialise_plan(text: str, change: bytes) -> Plan:
    """Read the plan again, in a worker process."""
    return parse(text, change=msgspec.json.decode(change))


def train_job(text: str, change: bytes, out: str, index: int, workers: int, tick: Tick) -> None:
    """Train one run, in a worker process."""
    plan = deserialise_plan(text, change)
    train_run(plan, runs(plan, Path(out))[index], tick, workers)


def attack_job(text: str, change: bytes, out: str, index: int, play: int, workers: int, tick: Tick) -> None:
    """Run one attack on one run, in a worker process."""
    plan = deserialise_plan(text, change)
    run = runs(plan, Path(out))[index]
    attack_run(run, *run.variant.plays(plan)[play], tick, workers=workers)
