"""fedleak check-model: does anything in a model look like an imprint block?"""

from __future__ import annotations

from pathlib import Path

import click

from fedleak.cli.options import full_option, opened
from fedleak.core import counted
from fedleak.errors import DataError
from fedleak.pipeline.model_check import CheckedModel, check_file, check_plan, check_trace
from fedleak.report.formatting import printable

__all__ = ["command"]


@click.command("check-model")
@click.argument("model", metavar="FILE|PLAN|TRACE")
@full_option
def command(model: str, full: bool) -> int:
    """Say what of a model looks like an imprint block, which a server inserts to read single examples out of updates.

    The argument is a file of weights (.safetensors or .npz), a folder with a trace, or a plan, whose data set is then
    loaded to build the model that clients are sent. Nothing in a file is executed. For clients: check a model before
    you train it. Exit code 3 if something is found. Other ways to make a model leak are not looked for.

    \b
    Examples:
      fedleak check-model global-model.safetensors
      fedleak check-model fedleak-run
      fedleak check-model exact-examples/imprint-minute
    """
    found = _check(model, full)
    for one in found:
        if not one.suspicions:
            click.echo(
                f"{printable(one.what)}: nothing in {counted(one.tensors, 'tensor')} looks like an imprint block. "
                "Other ways to make a model leak were not looked for."
            )
        for suspicion in one.suspicions:
            click.echo(f"{printable(one.what)}: {printable(str(suspicion))}.")
    return 3 if any(one.suspicions for one in found) else 0


def _check(model: str, full: bool) -> list[CheckedModel]:
    path = Path(model)
    if path.is_dir():
        return check_trace(path)
    if path.is_file() and path.suffix != ".toml":
        return check_file(path)
    if path.suffix in (".safetensors", ".npz"):
        raise DataError(f"{path}: no such file")
    return check_plan(opened(model, None, full)[0])
