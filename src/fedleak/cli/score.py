"""fedleak score: the third step of an audit, from predictions to results.json."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.options import bar, full_option, opened, out_option, plan_argument
from fedleak.pipeline import stages

__all__ = ["command"]


@click.command("score")
@plan_argument
@full_option
@out_option
def command(plan: str, full: bool, out: Path | None) -> int:
    """Score the attacks of PLAN that have run, and write results.json.

    \b
    Example:
      fedleak score my-plan.toml --out results/
    """
    chosen, folder = opened(plan, out, full)
    with bar() as progress:
        result = stages.score(chosen, folder, progress)
    click.echo(f"scored: {folder / 'results.json'}; next: fedleak report {folder}")
    return 3 if result.over_limit else 0
