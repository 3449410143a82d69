"""fedleak simulate-like: a plan that trains a federation like a recorded one."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.errors import PlanError
from fedleak.pipeline.similar_plan import similar_plan
from fedleak.plan.code import is_code
from fedleak.plan.read import load_plan
from fedleak.population.datasets.own import call
from fedleak.record.owners import owners_of
from fedleak.record.recording import Recording
from fedleak.trace.files import write_atomic

__all__ = ["command"]


@click.command("simulate-like")
@click.argument("plan", metavar="PLAN", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The new plan; default: PLAN-like.toml.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(plan: Path, out: Path | None, force: bool) -> None:
    """Write a plan that trains a federation like the recorded run that PLAN audits.

    Nobody can apply a defence to a run that is over. The new plan trains a federation with the same model, rounds and
    settings on the auditor's data, with the same attacks, and with defences to compare. What cannot be carried over is
    listed in its first lines.

    \b
    Examples:
      fedleak simulate-like audit.toml
      fedleak sweep audit-like.toml
    """
    target = out or Path(f"{plan.stem}-like.toml")
    if target.exists() and not force:
        raise PlanError(f"{target} exists; choose another --out, or replace it with --force")
    chosen = load_plan(plan)
    if chosen.trace is None:
        raise PlanError(f"{plan}: has no table [trace], so it trains a federation of its own already")
    recording = Recording.open(chosen.trace.path)
    owners = None
    if chosen.truth.owners is not None:
        told = call(chosen.truth.owners) if is_code(chosen.truth.owners) else None
        owners = owners_of(recording, chosen.truth.owners, told)
    write_atomic(target, similar_plan(chosen, recording, owners).encode("utf-8"))
    click.echo(f"{target}: written; `fedleak sweep {target}` compares its defences")
