"""fedleak train: the first step of an audit, from a plan to traces."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.options import bar, full_option, jobs_option, opened, out_option, plan_argument
from fedleak.pipeline import stages

__all__ = ["command"]


@click.command("train")
@plan_argument
@full_option
@out_option
@jobs_option
def command(plan: str, full: bool, out: Path | None, jobs: int | None) -> None:
    """Train the federations of PLAN and record their traces, to be attacked later.

    \b
    Example:
      fedleak train my-plan.toml --out results/
    """
    chosen, folder = opened(plan, out, full)
    with bar() as progress:
        stages.train(chosen, folder, progress, jobs)
    click.echo(f"trained; next: fedleak attack {plan} --out {folder}")
