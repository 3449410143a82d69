"""What was not tested, so that nobody reads silence as safety. Page only."""

from __future__ import annotations

from typing import ClassVar

from fedleak.report.section import Section

__all__ = ["UntestedClaims"]


class UntestedClaims(Section):
    """Attacks, adversaries and games that the audit says nothing about."""

    name: ClassVar[str] = "untested"
    link: ClassVar[str] = "Not tested"
    title: ClassVar[str] = "What was not tested"
