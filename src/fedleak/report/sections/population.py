"""The population, the federation, and the findings of the data checks."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console
from rich.text import Text

from fedleak.report.formatting import printable
from fedleak.report.section import Section
from fedleak.results.audit import Audit

__all__ = ["PopulationSection"]


class PopulationSection(Section):
    """The users, their data, and the training settings."""

    name: ClassVar[str] = "people"
    link: ClassVar[str] = "Population"
    title: ClassVar[str] = "Population and training"

    def show(self, audit: Audit, console: Console) -> None:
        """The findings of the data checks, one line each."""
        for finding in audit.findings:
            console.print(Text(f"Data check ({finding.action}): {printable(finding.with_users())}"))
