"""What was not tested, so that missing results are not read as safety. Page only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedleak.report.section import Section
from fedleak.report.summary import untested_groups
from fedleak.results.audit import Audit

__all__ = ["UntestedClaims"]


class UntestedClaims(Section):
    """Attacks, adversaries and games that the audit does not cover, by what they would have taken."""

    name: ClassVar[str] = "untested"
    link: ClassVar[str] = "Not tested"
    title: ClassVar[str] = "What was not tested"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """What could have been tested, in groups."""
        return {"groups": untested_groups(audit.untested)}
