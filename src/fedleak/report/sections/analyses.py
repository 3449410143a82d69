"""The analyses that were run on this audit's federations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedleak.report import analysis_figures, formatting
from fedleak.report.formatting import printable
from fedleak.report.section import Section
from fedleak.results.audit import Analysis, Audit

__all__ = ["Analyses", "show_analysis"]

_MOST_ROWS = 12  # in the terminal


class Analyses(Section):
    """Text, figures and numbers of every analysis."""

    name: ClassVar[str] = "analyses"
    link: ClassVar[str] = "Analyses"
    title: ClassVar[str] = "Analyses"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """Each analysis with its figures and its formatted numbers."""
        items = [
            {
                "analysis": one,
                "figures": [
                    (f.title, analysis_figures.draw_figure(f"n{place}-{i}", f)) for i, f in enumerate(one.figures)
                ],
                "numeric": formatting.numeric(one.rows),
                "rows": formatting.rows(one.rows),
            }
            for place, one in enumerate(audit.analyses)
        ]
        return {"analyses": items} if items else None

    def show(self, audit: Audit, console: Console) -> None:
        """The text and the first rows; the page has the figures."""
        for analysis in audit.analyses:
            console.print()
            show_analysis(analysis, console)


def show_analysis(analysis: Analysis, console: Console) -> None:
    """Print the text and the first rows."""
    console.print(Text(printable(analysis.title), style="bold"))
    console.print(Text(printable(" ".join(analysis.text.split()))))
    shown = analysis.rows[:_MOST_ROWS]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    numeric = formatting.numeric(shown)
    for place, title in enumerate(analysis.columns if shown else []):
        table.add_column(Text(printable(title)), justify="right" if numeric[place] else "left", overflow="fold")
    for row in formatting.rows(shown):
        table.add_row(*(Text(cell) for cell in row))
    if shown:
        console.print(table)
    if len(shown) < len(analysis.rows):
        console.print(Text(f"{len(analysis.rows) - len(shown)} more rows are in the report.", style="dim"))
