"""fedleak data: which data sets are available, and how to get the rest."""

from __future__ import annotations

import click

from fedleak import registry
from fedleak.population.sources import status

__all__ = ["command"]


@click.command("data")
def command() -> None:
    """Show which data sets are available on this machine and how to get the missing ones.

    Files are looked up in the folder named by FEDLEAK_DATA, then in the cache.

    \b
    Example:
      FEDLEAK_DATA=/path/to/data fedleak data
    """
    needing = {found.dataset: found for found in status()}
    for name in registry.names("dataset"):
        cls = registry.load("dataset", name)
        found = needing.get(name)
        state = "ready" if found is None or found.present else "missing"
        click.echo(f"{name:<15} {state:<8} {(cls.__doc__ or '').splitlines()[0]}")
        for file, path, size in found.files if found else ():
            if path is not None:
                click.echo(f"{'':<15} {size / 1e6:7.1f} MB  {path}")
            elif found is not None and not found.present:
                click.echo(f"{'':<15} {'':>10}  {file}: not found")
        if found is not None and found.how:
            click.echo(f"{'':<15} {found.how}")
