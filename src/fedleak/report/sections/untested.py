"""What was not tested, so that missing results are not read as safety. Page only."""

from __future__ import annotations

from typing import ClassVar

from fedleak.report.section import Section

__all__ = ["UntestedClaims"]


class UntestedClaims(Section):
    """Attacks, adversaries and games that the audit does not cover."""

    name: ClassVar[str] = "untested"
    link: ClassVar[str] = "Not tested"
    title: ClassVar[str] = "What was not tested"
