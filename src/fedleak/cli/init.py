"""fedleak init: look at data and write a first plan for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from fedleak.errors import DataError, FedleakError, PlanError, did_you_mean
from fedleak.pipeline.first_plan import Choice, FirstPlan, write_plan
from fedleak.pipeline.propose import propose
from fedleak.plan.read import parse
from fedleak.population.look import Guess
from fedleak.population.prepare import Prepared, prepare
from fedleak.report.formatting import printable
from fedleak.trace.files import write_atomic

__all__ = ["command"]

_NONE = "none"


def interactive() -> bool:
    """Whether somebody can answer."""
    return sys.stdin.isatty()


class _Settle:
    """Takes a choice from a flag, from a guess that is sure or accepted, or asks the user."""

    def __init__(self, flags: Mapping[str, str | None], yes: bool) -> None:
        self.flags, self.yes = flags, yes
        self.asked = 0
        self.used: set[str] = set()

    def __call__(self, flag: str, question: str, guess: Guess, among: Sequence[str] | None = None) -> str | None:
        """The value of a choice, and a line that says where it comes from."""
        given = self.flags.get(flag)
        self.used.add(flag)
        if given is not None:
            value = None if given == _NONE else given
            if value is not None and among is not None and value not in among:
                raise PlanError(f"--{flag} {printable(value)}: no such choice{did_you_mean(value, among)}")
            return value
        if guess.sure or (self.yes and guess.value is not None):
            if guess.value is not None:
                click.echo(f"  {flag + ':':<10} {printable(guess.value)} ({printable(guess.why)})")
            return guess.value
        if self.yes or not interactive():
            take = "" if guess.value is None else f", or take the guess '{printable(guess.value)}' with --yes"
            raise PlanError(f"cannot ask: {question} Name it with --{flag}{take}")
        self.asked += 1
        return self._ask(question, guess, among)

    def check_all_used(self, path: Path) -> None:
        """Refuse a flag that was of no use: somebody who gave it expects it to count."""
        for flag, value in self.flags.items():
            if value is not None and flag not in self.used:
                raise PlanError(f"{path}: --{flag} does not apply to data of this kind; leave it out")

    def _ask(self, question: str, guess: Guess, among: Sequence[str] | None) -> str | None:
        hint = f" [{', '.join(map(printable, among))}]" if among is not None and len(among) <= 20 else ""
        click.echo(f"{question}{hint}")
        click.echo(f"  {printable(guess.why)}")
        while True:
            said = str(click.prompt("  ", default=guess.value or _NONE, prompt_suffix="> ")).strip()
            if said == _NONE:
                return None
            if among is None or said in among:
                return said
            click.echo(f"  no such choice{did_you_mean(said, among)}")


@click.command("init")
@click.argument("data", metavar="[DATA]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="The new plan; default: NAME-OF-DATA.toml."
)
@click.option("--user", metavar="COLUMN", help="Column of a table that says whose row it is.")
@click.option("--label", metavar="COLUMN", help="Column to predict; none: predict the next word of a text.")
@click.option("--text", metavar="COLUMN", help="Column with what users wrote; none: use columns of numbers.")
@click.option("--time", metavar="COLUMN", help="Column with dates; none: there are none.")
@click.option("--task", type=click.Choice(["classify", "next-token", "regress"]), help="What the model learns.")
@click.option(
    "--prior", type=click.Choice(["chrono", "random"]), help="What the adversary has: older data, or a random half."
)
@click.option("--model", metavar="MODULE:CALLABLE", help="Of a recorded run: the code of its model.")
@click.option("--data", "own", metavar="MODULE:CALLABLE", help="Of a recorded run: the auditor's data of its users.")
@click.option("--owners", metavar="FILE", help="Of a recorded run: whose client is whose (client,user), or key.")
@click.option("--yes", is_flag=True, help="Take every guess; ask nothing.")
@click.option("--force", is_flag=True, help="Replace the plan if it exists.")
def command(data: Path | None, out: Path | None, own: str | None, yes: bool, force: bool, **flags: str | None) -> None:
    """Look at DATA and write a plan that audits it, with a comment on every choice.

    DATA is a table (.csv, .tsv, .jsonl, .parquet, ...), a folder of images with one folder per user, or the folder of a
    recorded run (Flower, NVFlare, pfl). What cannot be known from it is asked for, unless a flag says it.

    \b
    Examples:
      fedleak init readings.csv
      fedleak init messages.jsonl --user sender --yes
      fedleak init photos/ --out audit.toml
      fedleak init fedleak-run --model my_app.task:Net --data my_app.audit:prior
    """
    path = data or _which(yes)
    target = out or Path(f"{path.name.split('.')[0] or 'plan'}.toml")
    if target.exists() and not force:
        raise PlanError(f"{target} exists; choose another --out, or replace it with --force")
    click.echo(f"{path}:")
    settle = _Settle({**flags, "data": own}, yes)
    plan = propose(path, settle)
    settle.check_all_used(path)
    text, notes = _working(plan, str(target))
    for note in [*plan.notes, *notes]:
        click.echo(f"  note: {printable(note)}")
    write_atomic(target, text.encode("utf-8"))
    click.echo(f"{target}: written. Read it, then:")
    click.echo(f"  fedleak check {target}\n  fedleak audit {target}")


def _which(yes: bool) -> Path:
    if yes or not interactive():
        raise PlanError(
            "name the data: fedleak init DATA --yes; what is guessed can be set with --user, --label, --text, --time, "
            "--task, --prior"
        )
    return Path(click.prompt("Which file or folder holds the data?", type=str)).expanduser()


def _working(plan: FirstPlan, source: str) -> tuple[str, list[str]]:
    """The text of a plan whose data can be read and divided; without times, where these turn out to be of no use."""
    text = write_plan(plan)
    read = parse(text, source)
    if read.trace is not None:
        return text, []
    try:
        found = prepare(read.dataset, read.population, read.seeds[0])
    except DataError as error:
        if read.population.prior != "chrono":
            raise
        # A random half is drawn by days, where there are times: they are left out as well.
        known = Choice("random", "the adversary knows a random half of each user's data; the times cannot divide it")
        untimed = {key: choice for key, choice in plan.tables["dataset"].items() if key != "time"}
        population = {**plan.tables["population"], "prior": known}
        tables = {**plan.tables, "dataset": untimed, "population": population}
        other = write_plan(replace(plan, tables=tables))
        again = parse(other, source)
        try:
            found = prepare(again.dataset, again.population, again.seeds[0])
        except FedleakError:
            raise error from None
        return other, [f"the times are not used, and prior is random: {error}", *_told(found)]
    return text, _told(found)


def _told(found: Prepared) -> list[str]:
    """What was found in the data, apart from how it is divided, which the report says."""
    return [finding.text for finding in found.findings if finding.kind not in ("split", "sizes")]
