"""fedleak trace: look at the record of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from fedleak.cli.options import console
from fedleak.cli.recorded_plan import plan_of_run
from fedleak.errors import FedleakError
from fedleak.pipeline.overlay_prepare import check_fit
from fedleak.pipeline.playable import Known, Playable, playable
from fedleak.pipeline.recorded_secrets import recorded_secrets
from fedleak.pipeline.trace_facts import TraceFacts, facts_of, open_folder
from fedleak.plan.code import is_code
from fedleak.population.datasets.own import Own, call
from fedleak.record.owners import owners_of
from fedleak.record.recording import Recording
from fedleak.report.formatting import printable

__all__ = ["command"]

_MOST_NAMED = 8  # layers or arrays in one line; --json has them all


@click.group("trace")
def command() -> None:
    """Look at the record of a run.

    \b
    Example:
      fedleak trace check fedleak-run
    """


@command.command("check")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--plan", "plan_file", type=click.Path(path_type=Path), help="The plan that is to audit it.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def check(folder: Path, plan_file: Path | None, as_json: bool) -> None:
    """Say what the recorded run in DIR holds, which attacks can be run on it, and what every other one lacks.

    All checksums are verified. With --plan, the owners, secrets, prior data and model that the plan names are read too,
    so its code is executed, and what does not fit the run is said.

    \b
    Examples:
      fedleak trace check fedleak-run
      fedleak trace check fedleak-run --plan audit.toml
    """
    recording = open_folder(folder)
    facts = facts_of(recording)
    known = _known(recording, plan_file)
    attacks = playable(facts, known)
    if as_json:
        found = {"trace": facts, "attacks": attacks}
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return
    for name, value in _lines(facts):
        click.echo(f"{name:<14} {printable(value)}")
    if why := _misfit(known):
        click.echo(f"{'plan':<14} cannot audit this run yet: {printable(why)}")
    click.echo()
    _show(attacks)


def _misfit(known: Known) -> str:
    """The error that an audit would end with, where owners, prior data or the model of the plan do not fit the run."""
    if known.plan is None or known.owners is None or known.population is None:
        return ""
    try:
        check_fit(known.plan)
    except FedleakError as error:
        return str(error)
    return ""


def _known(recording: Recording, path: Path | None) -> Known:
    if path is None:
        return Known()
    plan = plan_of_run(path, recording.folder)
    owners = None
    if plan.truth.owners is not None:
        told = call(plan.truth.owners) if is_code(plan.truth.owners) else None
        owners = owners_of(recording, plan.truth.owners, told)
    given = plan.prior.data is not None or plan.dataset.name != "own"
    return Known(
        plan=plan,
        owners=owners,
        population=plan.dataset.load(plan.seeds[0]) if given else None,
        secrets=recorded_secrets(plan, recording, owners),
        held=None if plan.truth.data is None else Own(target=plan.truth.data).load(plan.seeds[0]),
    )


def _lines(facts: TraceFacts) -> Iterable[tuple[str, str]]:
    origin = ", ".join(f"{key} {value}" for key, value in facts.origin.items()) or "fedleak"
    yield "origin", origin
    yield "recording", facts.state + (f": {facts.reason}" if facts.reason else "")
    without = facts.rounds - facts.rounds_with_updates
    some = f", {without} of them without a recorded update" if without else ""
    yield "rounds", f"{facts.rounds}{some}" + (f"; updates in every {facts.every}th" if facts.every > 1 else "")
    if facts.jumps:
        yield "jumps", f"after round(s) {_some(map(str, facts.jumps))} the model is another one, without any client"
    took = facts.participation
    times = (
        f"; each in {took.least} to {took.most} rounds (median {took.median:g}), {took.once} only once" if took else ""
    )
    yield "clients", f"{facts.clients} with {facts.updates} updates{times}"
    yield "lost", "; ".join(f"{count} x {why}" for why, count in facts.drops.items()) or "none"
    kept = "only sums" if facts.sums_only else f"updates as {facts.dtype}"
    yield "model", f"{facts.parameters:,} parameters in {len(facts.layers)} layers; {kept}"
    if facts.buffers:
        yield "buffers", f"apart from the weights: {_some(facts.buffers)}"
    if facts.unrecorded:
        yield "unrecorded", f"updates of {_some(facts.unrecorded)}"
    if facts.left_out:
        yield "left out", _some(f"{name} ({why})" for name, why in facts.left_out.items())
    for note in facts.notes:
        yield "note", note
    who = "none" if not facts.key else "by partition" if facts.partitions else "by node id"
    yield "key", "beside the trace: the run's own truth" if facts.truth else who
    yield "disk", f"{facts.disk / 1e6:,.1f} MB; all checksums are right"


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _show(attacks: list[Playable]) -> None:
    """A table in a terminal; where the output is piped, lines that can be searched."""
    able = sum(not one.missing for one in attacks)
    click.echo(f"{able} of {len(attacks)} attacks can be run.")
    if not sys.stdout.isatty():
        for one in attacks:
            said = f"lacks {'; '.join(one.missing)}" if one.missing else f"can be run as {', '.join(one.adversaries)}"
            click.echo(f"{one.attack:<20} {one.game:<14} {printable(said)}")
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("attack", "game", "can be run as", "lacks", box=None, pad_edge=False)
    for one in attacks:
        lacks = Text(printable("\n".join(f"- {what}" for what in one.missing)))
        table.add_row(Text(one.attack), Text(one.game), Text(", ".join(one.adversaries)), lacks)
    console().print(table)
