"""fedleak simulate-like: a plan that trains a federation like a recorded one."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.recorded_plan import plan_of_run
from fedleak.errors import PlanError
from fedleak.pipeline.similar_plan import similar_plan
from fedleak.plan.code import is_code
from fedleak.population.datasets.own import call
from fedleak.record.owners import owners_of
from fedleak.record.recording import Recording
from fedleak.trace.files import write_atomic

__all__ = ["command"]


@click.command("simulate-like")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="The plan that audits RUN.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The new plan; default: PLAN-like.toml.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(run: Path, plan_file: Path | None, out: Path | None, force: bool) -> None:
    """Write a plan that trains a federation like the recorded run RUN.

    RUN is the folder of the run, with --plan, or just the plan that audits it. Nobody can apply a defence to a run that
    is over. The new plan trains a federation with the same model, rounds and settings on the auditor's data, with the
    same attacks, and with defences to compare. What cannot be carried over is listed in its first lines.

    \b
    Examples:
      fedleak simulate-like fedleak-run --plan audit.toml
      fedleak simulate-like audit.toml
      fedleak sweep audit-like.toml
    """
    if plan_file is None and run.is_dir():
        raise PlanError(
            f"{run}: is a folder, not a plan; name the plan that audits this run, with --plan (a record holds no data "
            "and no code of yours)"
        )
    source = plan_file or run
    target = out or Path(f"{source.stem}-like.toml")
    if target.exists() and not force:
        raise PlanError(f"{target} exists; choose another --out, or replace it with --force")
    chosen = plan_of_run(source, run if plan_file else None)
    assert chosen.trace is not None
    recording = Recording.open(chosen.trace.path)
    owners = None
    if chosen.truth.owners is not None:
        told = call(chosen.truth.owners) if is_code(chosen.truth.owners) else None
        owners = owners_of(recording, chosen.truth.owners, told)
    write_atomic(target, similar_plan(chosen, recording, owners).encode("utf-8"))
    click.echo(f"{target}: written; `fedleak sweep {target}` compares its defences")
