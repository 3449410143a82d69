"""The command `fedleak`: one subcommand per file; expected errors become one line, bugs are not hidden."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from fedleak import __version__
from fedleak.errors import FedleakError

__all__ = ["main", "cli"]

_VERBS = (
    "demo",
    "init",
    "audit",
    "sweep",
    "train",
    "attack",
    "score",
    "report",
    "analyse",
    "reproduce",
    "list",
    "check",
    "check-defence",
    "ledger",
    "check-model",
    "trace",
    "simulate-like",
    "data",
)

EXIT_CODES = """\b
Exit codes:
  0    done
  1    error, explained in one line
  2    usage error
  3    the lower bound of a leak, or the epsilon spent, exceeds a limit of the plan (check-defence: a defence has no
       effect, or breaks the epsilon that it states; check-model: something looks like an imprint block)
  130  interrupted; rerun the same command to resume"""


class Verbs(click.Group):
    """Import a subcommand when it is called: `fedleak --help` does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of use."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the file of one subcommand."""
        if name not in _VERBS:
            return None
        command = import_module(f"fedleak.cli.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Verbs, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fedleak")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Audit what a federated learning run reveals about its users, and what it would cost to prevent that.

    For auditing systems that you run yourself.

    \b
    Examples:
      fedleak demo                        run a complete audit on bundled data, in about a minute
      fedleak audit my-plan.toml          run everything in a plan
      fedleak sweep my-plan.toml          measure what each defence prevents and costs
      fedleak list --matrix               show which adversary can run which attack
    """
    ctx.obj = debug


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a FedleakError becomes one message and exit code 1."""
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
        click.echo("fedleak: interrupted; finished work is kept. Rerun the same command to resume", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader closed the pipe (`fedleak list | head`), so nobody would see a message
        sys.exit(0)


if __name__ == "__main__":
    main()
