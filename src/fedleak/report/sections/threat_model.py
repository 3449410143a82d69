"""The threat model: what each adversary sees and can do. The terminal shows it beside the verdicts."""

from __future__ import annotations

from typing import ClassVar

from fedleak.report.section import Section

__all__ = ["ThreatModel"]


class ThreatModel(Section):
    """Observations, capabilities, and the defences that were tested."""

    name: ClassVar[str] = "threat"
    link: ClassVar[str] = "Threat model"
    title: ClassVar[str] = "Threat model"
