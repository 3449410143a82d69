"""fedleak report: the last step of an audit."""

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
    """Show the results in an output FOLDER again and write its HTML report anew.

    \b
    Example:
      fedleak report results/
    """
    result = results_file.with_images(results_file.read(folder), folder)
    stages.report(result, folder)
    return conclude(result, folder)
