"""fedleak report: the last step of an audit, from results.json to the report."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.audit import conclude
from fedleak.pipeline import stages
from fedleak.report import results_file
from fedleak.report.names import with_names

__all__ = ["command"]


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--names", is_flag=True, help="Show users' names instead of pseudonyms; needs the key in FOLDER/runs.")
def command(folder: Path, names: bool) -> int:
    """Show the results in an output FOLDER and rewrite its HTML report.

    \b
    Example:
      fedleak report results/
    """
    result = results_file.with_images(results_file.read_results(folder), folder)
    if names:
        result = with_names(result, folder)
    stages.report(result, folder)
    return conclude(result, folder)
