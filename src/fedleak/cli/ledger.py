"""fedleak ledger: the epsilon that each client of a run has spent."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from fedleak.cli.options import console, full_option, opened, out_option, plan_argument
from fedleak.pipeline.ledger import statement_file
from fedleak.pipeline.runs import runs
from fedleak.report.formatting import run_label
from fedleak.report.spending import spent
from fedleak.trace.files import write_atomic

__all__ = ["command"]


@click.command("ledger")
@plan_argument
@full_option
@out_option
@click.option(
    "--json",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the statements and every client's account to this file.",
)
def command(plan: str, full: bool, out: Path | None, target: Path | None) -> int:
    """Say how much epsilon the clients of PLAN's runs have spent, from the rounds recorded so far.

    Works while a run is being trained, after it was killed, and after it was resumed. With --json, the file holds each
    statement with everything that it depends on, and for every client the rounds in which it took part and the epsilon
    spent after each. It says who took part when: give it only to those who may know.

    \b
    Examples:
      fedleak ledger my-plan.toml --out results/
      fedleak ledger my-plan.toml --out results/ --json epsilon.json
    """
    chosen, folder = opened(plan, out, full)
    found = statement_file(chosen, runs(chosen, folder))
    screen = console()
    for run in found.runs:
        state = "finished" if run.finished else f"{run.rounds} of {run.of} rounds recorded"
        screen.print(f"{run_label(run.defence, None)}, seed {run.seed}: {state}", style="bold")
        for statement in run.statements:
            if not statement.stated:
                screen.print(f"  {statement.why_not[:1].upper()}{statement.why_not[1:]}.", markup=False)
        for ledger in run.ledgers:
            screen.print(f"  {spent(ledger.spending)}", markup=False)
    if not found.runs:
        screen.print(f"No run with a defence has recorded a round in {folder}; train one with fedleak train or audit.")
    for budget in found.budgets:
        screen.print(f"Limit on epsilon for a {budget.unit}: {budget.text}", markup=False)
    if target is not None:
        write_atomic(target, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        screen.print(f"Data:   {target}", soft_wrap=True)
    return 3 if any(budget.exceeded for budget in found.budgets) else 0
