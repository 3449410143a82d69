"""fedleak report: the last step of an audit, from results.json to the report and the sign-off document."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import click

from fedleak.cli.audit import conclude
from fedleak.pipeline import stages
from fedleak.report import results_file
from fedleak.report.names import with_names
from fedleak.report.pdf import find_browser, print_pdf

__all__ = ["command"]

_LONGEST = 200


class Person(click.types.StringParamType):
    """A name in one line."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Reject what would not fit on the line."""
        text = str(value).strip()
        if not text or len(text) > _LONGEST or not text.isprintable():
            self.fail(f"expected a name of 1 to {_LONGEST} printable characters", param, ctx)
        return text


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--names", is_flag=True, help="Show users' names instead of pseudonyms; needs the key in FOLDER/runs.")
@click.option("--signoff", is_flag=True, help="Also write sign-off.html: the decision, to be printed and signed.")
@click.option("--pdf", is_flag=True, help="Also print the report, or with --signoff that document, as PDF (Chromium).")
@click.option("--tester", type=Person(), help="Who ran the audit; default: [signoff] in the plan, or a blank line.")
@click.option("--reviewer", type=Person(), help="Who checks it.")
@click.option("--approver", type=Person(), help="Who decides about the deployment.")
@click.option(
    "--date",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Date of the document; default: the day of the results.",
)
@click.option("--review-months", type=click.IntRange(1, 120), help="Months until the next review.")
def command(folder: Path, names: bool, signoff: bool, pdf: bool, **signed: Any) -> int:
    """Show the results in an output FOLDER and rewrite its HTML report.

    \b
    Examples:
      fedleak report results/
      fedleak report results/ --signoff --pdf
      fedleak report results/ --signoff --tester "A. Tester" --review-months 12
      fedleak report results/ --names
    """
    given = [f"--{name.replace('_', '-')}" for name, value in signed.items() if value is not None]
    if given and not signoff:
        raise click.UsageError(f"{given[0]} is for the sign-off document; add --signoff.")
    result = results_file.with_images(results_file.read_results(folder), folder)
    if names:
        result = with_names(result, folder)
    page = stages.report(result, folder)
    written = [page]
    if signoff:
        from fedleak.report.signoff import document
        from fedleak.report.signoff.signatories import signatories

        if isinstance(signed.get("date"), datetime.datetime):
            signed["date"] = signed["date"].date()
        written.append(document.write(result, folder, signatories(result, **signed)))
    if pdf:
        written.append(print_pdf(written[-1], written[-1].with_suffix(".pdf"), find_browser()))
    code = conclude(result, folder)
    for path in written[1:]:
        click.echo(f"{'PDF' if path.suffix == '.pdf' else 'Sign-off'}: {path}")
    return code
