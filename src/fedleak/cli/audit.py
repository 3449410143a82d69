"""fedleak audit: run everything in a plan."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.analyses.analysis import analyse, check
from fedleak.cli.options import bar, console, full_option, jobs_option, opened, out_option, plan_argument
from fedleak.pipeline import stages
from fedleak.plan.plan import Plan
from fedleak.report import results_file, terminal
from fedleak.results.audit import Audit

__all__ = ["command", "analysed", "conclude"]


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
    with bar() as progress:
        result = analysed(stages.audit(chosen, folder, progress, jobs), chosen, folder, progress, jobs)
    return conclude(result, folder)


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
    return 3 if any(score.exceeded for score in result.scores) else 0
