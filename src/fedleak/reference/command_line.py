"""The options of every verb, as click knows them."""

from __future__ import annotations

import click

from fedleak.cli.main import cli
from fedleak.reference.tables import table

__all__ = ["option_tables"]


def option_tables() -> dict[str, str]:
    """A table for each verb that has options, and one for the options before the verb."""
    context = click.Context(cli)
    found: dict[str, str] = {}
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            found |= {f"options of {name} {one}": _options(each) for one, each in command.commands.items()}
        elif command is not None:
            found[f"options of {name}"] = _options(command)
    return {name: text for name, text in {**found, "options before the verb": _options(cli)}.items() if text}


def _options(command: click.Command) -> str:
    # Help is an option of every verb; it is told once, for all of them.
    params = (
        command.get_params(click.Context(command, **command.context_settings)) if command is cli else command.params
    )
    options = [option for option in params if isinstance(option, click.Option)]
    rows = [[f"`{_spelt(option, command)}`", (option.help or "").replace("|", "\\|")] for option in options]
    return table(["option", "meaning"], rows) if rows else ""


def _spelt(option: click.Option, command: click.Command) -> str:
    if option.is_flag:
        return ", ".join(option.opts)
    number = isinstance(option.type, click.types.IntParamType)
    return f"{', '.join(option.opts)} {'N' if number else option.make_metavar(click.Context(command))}"
