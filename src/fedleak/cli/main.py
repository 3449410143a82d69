"""The command `fedleak`: one verb a file; errors are explained in a line, and bugs are not hidden."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from fedleak import __version__
from fedleak.errors import FedleakError

__all__ = ["main", "cli"]

_VERBS = (
    "demo",
    "audit",
    "sweep",
    "train",
    "attack",
    "score",
    "report",
    "analyse",
    "list",
    "check",
    "check-defence",
    "data",
)

EXIT_CODES = """\b
Exit codes:
  0    done
  1    an error, explained in one line
  2    wrong usage
  3    a leak's lower bound exceeds a limit of the plan (check-defence: a defence does nothing, or less than it states)
  130  interrupted; rerun the same command to resume"""


class Verbs(click.Group):
    """Verbs are imported when they are called: `fedleak --help` does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the story."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import one verb's file."""
        if name not in _VERBS:
            return None
        command = import_module(f"fedleak.cli.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Verbs, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fedleak")
@click.option("--debug", is_flag=True, help="Show the traceback of an explained error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Audit what a federated learning run gives away about the people in it, and what it would cost to stop that.

    For auditing systems that you run yourself.

    \b
    Examples:
      fedleak demo                        a complete audit on bundled data, in about a minute
      fedleak audit my-plan.toml          everything a plan asks for
      fedleak sweep my-plan.toml          what each defence buys and costs
      fedleak list --matrix               who can play which attack
    """
    ctx.obj = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; explained errors become one message and exit code 1."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(cli.main(arguments, prog_name="fedleak", standalone_mode=False))
    except FedleakError as error:
        if "--debug" in arguments:
            raise
        click.echo(f"fedleak: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("fedleak: interrupted; what is finished is kept, and the same command goes on from there", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away (`fedleak list | head`): there is no one to tell
        sys.exit(0)


if __name__ == "__main__":
    main()
