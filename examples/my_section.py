"""A section of the report of your own: one class, and one partial beside it (my_section.html)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from rich.console import Console

from fedleak import Audit, Section

__all__ = ["WhatItTook"]


class WhatItTook(Section):
    """How long the audit took, and for how many scores."""

    name: ClassVar[str] = "what-it-took"
    link: ClassVar[str] = "What it took"
    title: ClassVar[str] = "What this audit took"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """Variables of the partial besides `audit`; None would omit the section."""
        return {"minutes": float(audit.environment["seconds"]) / 60}

    def show(self, audit: Audit, console: Console) -> None:
        """The same in the terminal."""
        console.print(f"{len(audit.scores)} scores in {audit.environment['seconds']} seconds.")
