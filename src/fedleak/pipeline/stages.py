"""The whole flow: train the federations of a plan, run attacks on them, score the predictions, write the report."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedleak.pipeline.attack_runner import attack_job, is_played
from fedleak.pipeline.collect import collect, effects, isolation, open_attacks, seconds, unplayed
from fedleak.pipeline.jobs import Progress, run_jobs, serialise_plan, share_cores
from fedleak.pipeline.ledger import budgets_of, ledgers, spendings
from fedleak.pipeline.output import add_elapsed, analyses, ensure_owned, working_in
from fedleak.pipeline.overlay_prepare import overlay_work
from fedleak.pipeline.prepare import lacks
from fedleak.pipeline.runs import facts, runs
from fedleak.pipeline.training import train_job
from fedleak.plan.plan import Plan
from fedleak.report import results_file
from fedleak.results.audit import Audit
from fedleak.sandbox.process import remove_stale, start_zygote
from fedleak.score.assemble import assemble
from fedleak.trace.pseudonyms import Pseudonyms

__all__ = ["Progress", "audit", "train", "attack", "score", "report"]


def audit(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> Audit:
    """Run everything in a plan, resuming an earlier attempt."""
    train(plan, out, progress, jobs)
    attack(plan, out, progress, jobs)
    result = score(plan, out, progress)
    report(result, out)
    return result


def train(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> None:
    """Prepare the population of every run that is not trained yet, train its federation and record the rounds.

    Games that were added to the plan later are asked of the federations that are there.
    """
    with working_in(plan, out):
        every = [(i, run) for i, run in enumerate(runs(plan, out)) if run.variant.trained]
        todo = [i for i, run in every if facts(run) is None or lacks(plan, run)]
        text, units = f"Training {len(todo)} federations", len(todo) * plan.federation.rounds
        if plan.trace is not None and todo:
            text, units = overlay_work(plan)
        progress.stage(text, units)
        processes, workers = share_cores(len(todo), jobs)
        run_jobs([(train_job, (*serialise_plan(plan), str(out), i, workers)) for i in todo], processes, progress.tick)


def attack(plan: Plan, out: Path, progress: Progress, jobs: int | None = None) -> None:
    """Run every attack of the plan, as every adversary, on every trained federation."""
    with working_in(plan, out):
        every = [
            (i, number, is_played(run, *play))
            for i, run in enumerate(runs(plan, out))
            if run.variant.played
            for number, play in enumerate(run.variant.plays(plan))
        ]
        for run in runs(plan, out):
            remove_stale(run.attacked)
        progress.stage(f"Running {len(every)} attacks", len(every))
        processes, workers = share_cores(sum(not done for *_, done in every), jobs)
        todo = [(attack_job, (*serialise_plan(plan), str(out), i, number, workers)) for i, number, _ in every]
        run_jobs(todo, processes, progress.tick, first=start_zygote)


def score(plan: Plan, out: Path, progress: Progress, *, partial: bool = False) -> Audit:
    """Compare all predictions with the truth and write `results.json`, with the analyses that are on disk.

    With `partial`, attacks that have not run on every seed of a federation are left out instead of raising an error.
    """
    ensure_owned(plan, out)
    every = runs(plan, out)
    progress.stage("Scoring", len(every))
    results = collect(plan, every, progress.tick, partial=partial)
    whole = [result for result in results if len(result.facts) == len(plan.seeds)]
    names = Pseudonyms.open(out)
    audited = assemble(plan, whole, add_elapsed(out, 0.0), effects(every), names=names)
    names.save()
    untested = [*unplayed(plan, results), *audited.untested]
    isolated = isolation(plan, every)
    accounted = ledgers(plan, every)
    audited = msgspec.structs.replace(
        audited,
        analyses=analyses(out),
        untested=untested,
        isolation=isolated,
        spendings=spendings(accounted),
        budgets=budgets_of(plan, accounted),
        attack_seconds=seconds(plan, every),
        warnings=[*audited.warnings, *open_attacks(isolated)],
    )
    results_file.write(audited, out)
    return audited


def report(result: Audit, out: Path) -> Path:
    """Write the HTML report."""
    from fedleak.report import html_page  # the template engine is slow to import, and `fedleak check` writes no report

    path = out / "report.html"
    html_page.write(result, path)
    return path
