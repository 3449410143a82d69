"""fedleak check: validate a plan, its data and its model, and estimate what the audit takes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from fedleak.analyses.analysis import check
from fedleak.cli.announce import about_data, about_time, too_large
from fedleak.cli.options import bar, full_option, jobs_option, opened, plan_argument
from fedleak.cli.progress import Shown
from fedleak.core import counted
from fedleak.pipeline.calibrate import calibrate
from fedleak.pipeline.estimate import estimate
from fedleak.pipeline.overlay_prepare import overlay_work, prepare_overlay
from fedleak.pipeline.runs import variants
from fedleak.plan.plan import Plan

__all__ = ["command"]


@click.command("check")
@plan_argument
@full_option
@jobs_option
@click.option("--quick", is_flag=True, help="Validate the plan alone: read no data, build no model, run no code.")
@click.option("--resolved", is_flag=True, help="Print the plan as JSON, with all defaults filled in.")
def command(plan: str, full: bool, jobs: int | None, quick: bool, resolved: bool) -> None:
    """Validate PLAN, read its data, build its model, and estimate what the audit will take.

    The estimate comes from a few rounds of the plan's own federation and small runs of its attacks. Nothing is kept.
    Code that the plan names (module:callable) is run, except with --quick.

    \b
    Examples:
      fedleak check my-plan.toml
      fedleak check my-plan.toml --quick
      fedleak check demo --resolved
    """
    chosen, out = opened(plan, None, full)
    if resolved:
        click.echo(msgspec.json.format(msgspec.json.encode(chosen.resolved), indent=2).decode())
        return
    every, seeds = variants(chosen), len(chosen.seeds)
    runs = seeds * sum(variant.trained for variant in every)
    plays = seeds * sum(len(variant.plays(chosen)) for variant in every if variant.played)
    if chosen.trace is None:
        what = f"trains {counted(runs, 'federation')} of {chosen.federation.rounds} rounds"
    else:
        what = "reads a recorded run"
    click.echo(f"{plan}: valid; {what}, runs {counted(plays, 'attack')}")
    if quick:
        return
    check(chosen)
    with tempfile.TemporaryDirectory(prefix="fedleak-check-") as folder:
        if chosen.trace is None:
            _federation(chosen, Path(folder), out, jobs)
        else:
            _recorded(chosen, Path(folder))


def _federation(plan: Plan, folder: Path, out: Path, jobs: int | None) -> None:
    with bar() as progress:
        found = calibrate(plan, folder, _stages(progress))
    assert found is not None
    sums = estimate(plan, found, jobs)
    for line in (*about_data(found), *about_time(sums), *too_large(sums, out)):
        click.echo(line)


def _recorded(plan: Plan, folder: Path) -> None:
    """A recorded run is attacked and not trained: its data and model are checked, and its time is not known."""
    ready = prepare_overlay(plan, plan.seeds[0], folder)
    layers = ready.built.fit.layout
    click.echo(f"Data: {counted(len(ready.users.users), 'user')}, {counted(len(ready.clients), 'client')} in all")
    click.echo(f"Model: {sum(one.size for one in layers):,} parameters in {counted(len(layers), 'layer')}")
    click.echo(f"{overlay_work(plan)[0]}; its time is not estimated")


def _stages(progress: Shown) -> Callable[[str], None]:
    return lambda text: progress.stage(text, 1)
