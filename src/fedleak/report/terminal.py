"""The result in the terminal, section by section. Colour only repeats what the text says."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from fedleak.report import summary
from fedleak.report.formatting import printable
from fedleak.report.section import sections
from fedleak.report.spending import over_budget
from fedleak.results.audit import Audit

__all__ = ["show"]


def show(audit: Audit, console: Console) -> None:
    """Print what an audit found in plain words, then the numbers."""
    console.print()
    console.print(Text(printable(audit.title), style="bold"))
    if audit.story:
        console.print(Text(printable(" ".join(audit.story.split()))))
    for section in sections():
        section.show(audit, console)
    for line in (*summary.over_limit(audit), *over_budget(audit)):  # last, where it is not overlooked
        console.print(Text(f"Over the plan's limit: {printable(line)}", style="bold red"))
