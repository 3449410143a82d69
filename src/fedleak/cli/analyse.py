"""fedleak analyse: why attacks work, and what they need."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

from fedleak import registry
from fedleak.cli.list import summaries
from fedleak.cli.options import bar, console, full_option, jobs_option, opened, out_option
from fedleak.errors import PlanError
from fedleak.plan.configure import configure, to_dict
from fedleak.report.sections.analyses import show_analysis

__all__ = ["command"]


@click.command("analyse")
@click.argument("name", metavar="NAME", required=False)
@click.argument("plan", metavar="PLAN", required=False)
@full_option
@out_option
@jobs_option
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Change a setting of the analysis; repeatable."
)
def command(
    name: str | None, plan: str | None, full: bool, out: Path | None, jobs: int | None, settings: tuple[str, ...]
) -> None:
    """Run analysis NAME on the undefended run of PLAN, and add it to the report.

    Without NAME, list the analyses. Settings come from the [[analysis]] table of PLAN, if it has one, and from --set.
    Missing runs are trained first; rerun the same command to resume. A later audit of the same folder keeps its
    analyses.

    \b
    Examples:
      fedleak analyse
      fedleak analyse layers demo
      fedleak analyse rounds my-plan.toml --out results/ --set ranges=10
    """
    if name is None:
        for entry, text in summaries("analysis"):
            click.echo(f"  {entry:<20} {text}")
        return
    cls = registry.load("analysis", name)
    if plan is None:
        raise click.UsageError("Missing argument 'PLAN': the plan whose run to analyse.")
    opened_plan, folder = opened(plan, out, full)
    planned = next((to_dict(one) for one in opened_plan.analyses if to_dict(one)["name"] == name), {})
    chosen = {key: value for key, value in planned.items() if key != "name"} | parsed(settings)
    look = configure(cls, chosen, f"fedleak analyse {name} --set")
    # The pipeline is slow to import, and a misspelt name should not wait for it.
    from fedleak.analyses.analysis import analyse

    with bar() as progress:
        found = analyse(look, opened_plan, folder, progress, jobs)
    show_analysis(found, console())
    click.echo(f"Report: {folder / 'report.html'}")
    click.echo(f"Data:   {folder / 'analyses' / f'{name}.json'}")


def parsed(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse KEY=VALUE pairs; values are written as in a plan, and text needs no quotes."""
    table: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise PlanError(f"--set {setting}: expected KEY=VALUE, for instance ranges=10")
        try:
            table[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            table[key] = value
    return table
