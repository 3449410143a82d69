"""fedleak check: validate a plan."""

from __future__ import annotations

import click
import msgspec

from fedleak.cli.options import full_option, opened, plan_argument
from fedleak.pipeline.runs import variants

__all__ = ["command"]


@click.command("check")
@plan_argument
@full_option
@click.option("--resolved", is_flag=True, help="Print the plan as JSON, with all defaults filled in.")
def command(plan: str, full: bool, resolved: bool) -> None:
    """Validate PLAN without running it.

    \b
    Examples:
      fedleak check my-plan.toml
      fedleak check demo --resolved
    """
    chosen, _ = opened(plan, None, full)
    if resolved:
        click.echo(msgspec.json.format(msgspec.json.encode(chosen.resolved), indent=2).decode())
        return
    every, seeds = variants(chosen), len(chosen.seeds)
    runs = seeds * sum(variant.trained for variant in every)
    plays = seeds * sum(len(variant.plays(chosen)) for variant in every if variant.played)
    click.echo(f"{plan}: valid; trains {runs} federations of {chosen.federation.rounds} rounds, runs {plays} attacks")
