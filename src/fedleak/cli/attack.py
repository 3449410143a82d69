"""fedleak attack: the second step of an audit, from traces to predictions."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.options import bar, full_option, jobs_option, opened, out_option, plan_argument
from fedleak.pipeline import stages

__all__ = ["command"]


@click.command("attack")
@plan_argument
@full_option
@out_option
@jobs_option
def command(plan: str, full: bool, out: Path | None, jobs: int | None) -> None:
    """Run the attacks of PLAN on federations that are already trained.

    You can add attacks to a plan after training; only those that have not run yet are run.

    \b
    Example:
      fedleak attack my-plan.toml --out results/
    """
    chosen, folder = opened(plan, out, full)
    with bar() as progress:
        stages.attack(chosen, folder, progress, jobs)
    click.echo(f"attacked; next: fedleak score {plan} --out {folder}")
