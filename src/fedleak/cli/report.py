"""fedleak report: the last step of an audit, from results.json to the report."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.audit import conclude
from fedleak.pipeline import stages
from fedleak.report import results_file

__all__ = ["command"]


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path) -> int:
    """Show the results in an output FOLDER and rewrite its HTML report.

    \b
    Example:
      fedleak report results/
    """
    result = results_file.with_images(results_file.read_results(folder), folder)
    stages.report(result, folder)
    return conclude(result, folder)
