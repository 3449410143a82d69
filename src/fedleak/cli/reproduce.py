"""fedleak reproduce: run the plans behind a row of the papers, and write down what they give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from fedleak.cli.options import bar, jobs_option
from fedleak.errors import DataError
from fedleak.plan import shipped
from fedleak.plan.read import load_plan
from fedleak.population.sources import SOURCES, status
from fedleak.reproduce import summary as store
from fedleak.reproduce.render import cost, figure_lines, list_lines
from fedleak.reproduce.rows import chosen
from fedleak.reproduce.summary import Summary, by_plan

__all__ = ["command"]


@click.command("reproduce")
@click.argument("name", metavar="NAME", required=False)
@click.option(
    "--list", "listed", is_flag=True, help="List the rows with verdict, version and whether the plan changed."
)
@click.option("--dry-run", is_flag=True, help="Say what would run and what it would cost; run nothing.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("fedleak-reproduce"),
    help="Folder of the audits, one folder per plan; default: fedleak-reproduce.",
)
@click.option(
    "--audit",
    "audited",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Folder of an audit of the plan, begun or finished, to use instead of one in --out.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the summaries; default: docs/results/data of the source tree.",
)
@jobs_option
def command(
    name: str | None,
    listed: bool,
    dry_run: bool,
    out: Path,
    audited: Path | None,
    data: Path | None,
    jobs: int | None,
) -> None:
    """Run the plans behind NAME, and write their figures into the summaries that the results pages are rendered from.

    NAME is a row of the papers (G1 to G10, R1 to R5, U1 to U5, L1 to L6), the name of a summary, a plan behind one, or
    a folder of plans. Rerun the same command to resume. A verdict is kept only while the figures stay within the
    intervals that it was given for.

    \b
    Examples:
      fedleak reproduce --list
      fedleak reproduce R3 --dry-run
      fedleak reproduce record-level/minute --out runs/
    """
    where = data if data is not None and data.is_dir() else store.folder()
    summaries = store.read_all(where)
    if listed:
        for line in list_lines(summaries):
            click.echo(line)
        return
    if name is None:
        raise click.UsageError("Missing argument 'NAME': a row of the papers; `fedleak reproduce --list` shows them.")
    todo = chosen(name, summaries)
    for line in cost(todo, out):
        click.echo(line)
    ensure_data(todo)
    if dry_run:
        return
    target = data or (where if where.parent.name == "results" else out / "data")
    if audited is not None and len(by_plan(todo)) > 1:
        raise click.UsageError(f"--audit is the folder of one plan, but {name} has {len(by_plan(todo))}; name one.")
    run(todo, out, target, jobs, audited)


def run(todo: Mapping[str, Summary], out: Path, target: Path, jobs: int | None, audited: Path | None = None) -> None:
    """Measure plan after plan; what a plan gave is written before the next one begins."""
    # The pipeline is slow to import, and a misspelt name should not wait for it.
    from fedleak.reproduce.measure import measure, moved

    for (plan, full), names in by_plan(todo).items():
        click.echo(f"{plan}{' --full' if full else ''}: {', '.join(names)}", err=True)
        folder = audited or out / (plan.replace("/", "-") + ("-full" if full else ""))
        with bar() as progress:
            found = measure({stem: todo[stem] for stem in names}, plan, full, folder, progress, jobs)
        for stem, now in found.items():
            path = target / f"{stem}.json"
            store.write(path, now)
            click.echo(f"{stem}: {now.title}")
            for line in figure_lines(todo[stem], now, moved(todo[stem], now)):
                click.echo(f"  {line}")
            click.echo(f"  {path}")
            if now.verdict is None:
                click.echo(f"  No verdict: {now.why or 'set `verdict` and `why` in that file.'}")
    click.echo("Render the pages: python -m fedleak.reference docs")


def ensure_data(todo: Mapping[str, Summary]) -> None:
    """Refuse before hours of work, not after them: every data set of every plan must be here."""
    missing = {found.dataset: found.how for found in status() if not found.present}
    lacks: dict[str, str] = {}
    for plan, full in by_plan(todo):
        dataset = load_plan(shipped.folder() / f"{plan}.toml", full=full).dataset
        source = getattr(dataset, "source", None)
        needed = source if source in SOURCES else dataset.name if source in (None, "mnist") else ""
        if needed in missing:
            lacks[plan] = missing[needed]
    if lacks:
        hows = " ".join(dict.fromkeys(lacks.values()))
        raise DataError(f"nothing was run: {', '.join(lacks)} cannot be: {hows}")
