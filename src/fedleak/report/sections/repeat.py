"""Everything needed to reproduce the audit: the plan, its defaults, the environment. Page only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from fedleak.report.section import Section
from fedleak.results.audit import Audit

__all__ = ["Repeat"]


class Repeat(Section):
    """The plan as it was run."""

    name: ClassVar[str] = "repeat"
    link: ClassVar[str] = "Reproduce it"
    title: ClassVar[str] = "Reproduce it"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """The plan with every default filled in."""
        return {"resolved": msgspec.json.format(msgspec.json.encode(audit.resolved), indent=2).decode()}
