"""fedleak audit: run everything in a plan."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from fedleak.analyses.analysis import analyse, check
from fedleak.cli.announce import headline, too_large
from fedleak.cli.options import bar, console, full_option, jobs_option, opened, out_option, plan_argument
from fedleak.pipeline import stages
from fedleak.pipeline.calibrate import calibrate
from fedleak.pipeline.estimate import estimate
from fedleak.plan.plan import Plan
from fedleak.report import results_file, terminal
from fedleak.results.audit import Audit

__all__ = ["command", "analysed", "conclude"]

_LEAST = 20.0  # seconds of training below which nothing is announced
_WORTH = 60.0  # seconds of the whole audit from which on it is


@click.command("audit")
@plan_argument
@full_option
@out_option
@jobs_option
def command(plan: str, full: bool, out: Path | None, jobs: int | None) -> int:
    """Train the federations of PLAN, attack them, score the attacks and write the report.

    PLAN is a TOML file or the name of a shipped plan. Rerun the same command to resume.

    \b
    Examples:
      fedleak audit demo
      fedleak audit my-plan.toml --out results/
    """
    chosen, folder = opened(plan, out, full)
    check(chosen)
    announce(chosen, folder, jobs)
    with bar() as progress:
        result = analysed(stages.audit(chosen, folder, progress, jobs), chosen, folder, progress, jobs)
    return conclude(result, folder)


def announce(plan: Plan, folder: Path, jobs: int | None) -> None:
    """Say what an audit will take, if that is minutes and none of it is done yet."""
    if plan.trace is not None or (folder / "audit.json").exists():
        return
    with tempfile.TemporaryDirectory(prefix="fedleak-check-") as scratch:
        found = calibrate(plan, Path(scratch), lambda text: None, least=_LEAST)
    if found is None:
        return
    sums = estimate(plan, found, jobs)
    if sums.seconds >= _WORTH:
        for line in (headline(sums), *too_large(sums, folder)):
            click.echo(line, err=True)


def analysed(result: Audit, plan: Plan, folder: Path, progress: stages.Progress, jobs: int | None) -> Audit:
    """Run the plan's analyses and return the result with them."""
    for look in plan.analyses:
        analyse(look, plan, folder, progress, jobs)
    return results_file.read_results(folder) if plan.analyses else result


def conclude(result: Audit, folder: Path) -> int:
    """Print the result and the path of the report, and return the exit code that follows from the plan's limits."""
    screen = console()
    terminal.show(result, screen)
    screen.print(f"Report: {folder / 'report.html'}", soft_wrap=True)
    screen.print(f"Data:   {folder / 'results.json'}", soft_wrap=True)
    return 3 if result.over_limit else 0
