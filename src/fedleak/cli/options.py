"""Options and helpers that the subcommands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fedleak.cli.progress import bar
from fedleak.plan.plan import Plan
from fedleak.plan.read import load_plan
from fedleak.plan.shipped import find
from fedleak.population.splits import STRATIFIED

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["plan_argument", "out_option", "full_option", "jobs_option", "opened", "bar", "console"]

F = TypeVar("F", bound=Callable[..., Any])

plan_argument = click.argument("plan", metavar="PLAN")
out_option = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Output folder; default: fedleak-PLAN."
)
full_option = click.option("--full", is_flag=True, help="Use the plan's [full] settings instead of the small ones.")
jobs_option = click.option("--jobs", type=click.IntRange(1), help="Number of processes; default: one per core.")


def opened(plan: str, out: Path | None, full: bool = False) -> tuple[Plan, Path]:
    """Read a plan given as a file or by name, and choose its output folder."""
    path = find(plan)
    chosen = load_plan(path, full=full)
    if chosen.population.split == "stratified":
        click.echo(f"Warning: {path.name}: {STRATIFIED}", err=True)
    return chosen, out or Path(f"fedleak-{path.stem}{'-full' if full else ''}")


def console() -> Console:
    """The console that results are printed to; 80 columns where the width is not known."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)
