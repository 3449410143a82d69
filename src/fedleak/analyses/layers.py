"""Which layer of an update identifies its sender?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedleak.analyses.curves import Point, format_measured
from fedleak.analyses.sweep_analysis import Scale, Subject, SweepAnalysis, Variation
from fedleak.pipeline.runs import facts

__all__ = ["Layers"]


@dataclass(frozen=True, kw_only=True)
class Layers(SweepAnalysis):
    """Run one attack on every layer in turn (Orekondy et al., 2020, Figure 9 and Table 5)."""

    name: ClassVar[str] = "layers"
    summary: ClassVar[str] = "Which layer of an update identifies its sender?"
    columns: ClassVar[tuple[str, ...]] = ("layer", "parameters")
    heading: ClassVar[str] = "Average precision by layer, from input to output"
    x_label: ClassVar[str] = "layer"
    scale: ClassVar[Scale] = "names"
    needs_layer: ClassVar[bool] = True

    def variations(self, subject: Subject) -> list[Variation]:
        """Every layer from input to output; nothing is trained again."""
        trained = facts(subject.runs[0])
        assert trained is not None
        return [
            Variation(x=place, label=f"{name} ({size:,} parameters)", cells=(name, size), attack={"layer": name})
            for place, (name, size) in enumerate(trained.layers.items())
        ]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """How many layers leak, and which leaks most."""
        best = max(points, key=lambda point: point.measured.value)
        leaking = sum(point.measured.low > point.measured.chance for point in points)
        return (
            "The same attack is run on one layer of the updates at a time. "
            f"{leaking} of {len(points)} layers identify senders; the best is {best.label}, average "
            f"precision {format_measured(best.measured)}."
        )
