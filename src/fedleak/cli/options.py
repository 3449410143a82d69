"""Options and helpers that the subcommands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fedleak.plan.plan import Plan
from fedleak.plan.read import load_plan
from fedleak.plan.shipped import find
from fedleak.population.splits import STRATIFIED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = ["plan_argument", "out_option", "full_option", "jobs_option", "opened", "Bar", "bar", "console"]

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


class Bar:
    """Progress with time left, on standard error so that results can be piped."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def stage(self, text: str, units: float) -> None:
        """Begin a stage; without a terminal, print one line instead of a bar."""
        if self.task is not None:
            self.progress.update(self.task, completed=self.progress.tasks[-1].total)
        self.task = self.progress.add_task(text, total=max(units, 1e-9))
        if units == 0:
            self.progress.update(self.task, completed=1e-9)
        if not self.progress.console.is_terminal:
            self.progress.console.print(f"{text} ...")

    def tick(self, units: float) -> None:
        """Advance the bar."""
        assert self.task is not None
        self.progress.advance(self.task, units)


@contextmanager
def bar() -> Iterator[Bar]:
    """Show a progress bar for every stage."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    errors = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=errors, disable=not errors.is_terminal) as progress:
        yield Bar(progress)
