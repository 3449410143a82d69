"""fedleak demo: a complete audit on bundled data."""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.audit import command as audit
from fedleak.cli.options import jobs_option

__all__ = ["command"]


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default="fedleak-demo", help="Output folder.")
@jobs_option
@click.pass_context
def command(ctx: click.Context, out: Path, jobs: int | None) -> int:
    """Audit a small federation on data that comes with Fedleak's dependencies, in about a minute.

    \b
    Examples:
      fedleak demo
      fedleak demo --out somewhere-else/
    """
    code: int = ctx.invoke(audit, plan="demo", out=out, jobs=jobs)
    return code
