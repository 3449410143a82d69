"""How to read the numbers: metrics, chance, intervals, controls, utility. Page only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fedleak.report import metrics
from fedleak.report.section import Section
from fedleak.results.audit import Audit

__all__ = ["Definitions"]


class Definitions(Section):
    """Definitions of every number on the page."""

    name: ClassVar[str] = "reading"
    link: ClassVar[str] = "How to read the numbers"
    title: ClassVar[str] = "How to read the numbers"
    by_unit: ClassVar[bool] = True

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """Definitions of the metrics and controls in use, and baselines for utility."""
        return {
            "metrics": metrics.definitions(audit),
            "controls": metrics.control_definitions(audit.scores),
            "utility": next((score.utility for score in audit.scores if score.utility is not None), None),
        }
