"""A section of the report: one class, and one template of the page (a partial) beside it.

The terminal and the page show the same sections in the same order, from the same numbers. A package adds its own with
an entry point of the group `fedleak.section`, for instance

    [project.entry-points."fedleak.section"]
    carbon = "my_package.carbon:Carbon"       # and my_package/carbon.html beside my_package/carbon.py
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from fedleak import registry
from fedleak.results.audit import Audit

__all__ = ["Section", "sections"]


class Section:
    """Base of every section; the partial has the name of the class's file, with the ending .html."""

    name: ClassVar[str]  # the anchor on the page
    link: ClassVar[str]  # in the table of contents
    title: ClassVar[str]  # the heading
    by_unit: ClassVar[bool] = False  # its text says users, and is reworded where an audit asks for clients

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """Variables of the partial besides `audit`; None omits the section."""
        return {}

    def show(self, audit: Audit, console: Console) -> None:
        """Print the section in the terminal; prints nothing by default."""

    @property
    def partial(self) -> Path:
        """The template of the page's part."""
        return Path(inspect.getfile(type(self))).with_suffix(".html")


def sections() -> list[Section]:
    """Every section, in the order in which they are shown; those of other packages last."""
    return [registry.load("section", name)() for name in registry.names("section")]
