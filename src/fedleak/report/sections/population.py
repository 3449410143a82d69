"""The people in it: the population, the federation, and what the examination of the data found."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console
from rich.text import Text

from fedleak.report.formatting import printable
from fedleak.report.section import Section
from fedleak.results.audit import Audit

__all__ = ["PopulationSection"]


class PopulationSection(Section):
    """Who took part, in what."""

    name: ClassVar[str] = "people"
    link: ClassVar[str] = "The people in it"
    title: ClassVar[str] = "The people in it"

    def show(self, audit: Audit, console: Console) -> None:
        """What was found before the run, a line each."""
        for finding in audit.findings:
            console.print(Text(f"Before the run ({finding.action}): {printable(finding.text)}"))
