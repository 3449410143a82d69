"""fedleak sweep: what each defence prevents and costs, at each strength."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click
import msgspec

from fedleak.analyses.analysis import check
from fedleak.cli.audit import analysed, conclude
from fedleak.cli.options import bar, full_option, jobs_option, opened, out_option, plan_argument
from fedleak.errors import PlanError
from fedleak.pipeline import stages
from fedleak.pipeline.sweep import over, sweep
from fedleak.report import results_file

__all__ = ["command"]


@click.command("sweep")
@plan_argument
@click.option(
    "--over",
    "grids",
    multiple=True,
    metavar="DEFENCE.KEY=V1,V2,...",
    help="Try a defence at these strengths as well as those of the plan; several keys of one defence are combined.",
)
@full_option
@out_option
@jobs_option
def command(plan: str, grids: tuple[str, ...], full: bool, out: Path | None, jobs: int | None) -> int:
    """Train and attack PLAN under every defence at every strength, and compare what each prevents and costs.

    In a plan, a list where [[defence]] expects one value makes one defence per value. A failed cell does not stop the
    others; rerun the same command to resume and to retry failed cells.

    \b
    Examples:
      fedleak sweep countermeasures/fig12-writers
      fedleak sweep demo --over noise.sigma=1,5,25 --over noise.relative=true
    """
    chosen, folder = opened(plan, out, full)
    if grids:
        chosen = over(chosen, asked(grids))
    check(chosen)
    with bar() as progress:
        swept = sweep(chosen, folder, progress, jobs)
        result = analysed(swept, chosen, folder, progress, jobs)
    if swept.failures and chosen.analyses:  # an analysis scores again and does not know what failed
        result = msgspec.structs.replace(result, failures=swept.failures)
        results_file.write(result, folder)
        stages.report(result, folder)
    code = conclude(result, folder)
    return 1 if swept.failures else code


def asked(grids: tuple[str, ...]) -> dict[tuple[str, str], list[Any]]:
    """Parse the values of --over.

    >>> asked(("noise.sigma=1,5", "noise.relative=true"))
    {('noise', 'sigma'): [1, 5], ('noise', 'relative'): [True]}
    """
    found: dict[tuple[str, str], list[Any]] = {}
    for grid in grids:
        target, equals, values = grid.partition("=")
        name, dot, key = target.partition(".")
        if not (name and dot and key and equals and values.strip()):
            raise PlanError(f"--over {grid}: expected DEFENCE.KEY=V1,V2,..., for instance noise.sigma=1,5")
        found[name, key] = [_value(text.strip(), grid) for text in values.split(",")]
    return found


def _value(text: str, grid: str) -> Any:
    """Parse a value as in a plan; a bare word is text."""
    if not text:
        raise PlanError(f"--over {grid}: empty value; expected DEFENCE.KEY=V1,V2,...")
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
