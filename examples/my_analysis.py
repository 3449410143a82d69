"""An analysis of your own, in one file: how many neighbours should vote on the sender of an update?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedleak import Point, Subject, SweepAnalysis, Variation, format_measured

__all__ = ["Neighbours"]


@dataclass(frozen=True, kw_only=True)
class Neighbours(SweepAnalysis):
    """Run reid-knn with several numbers of neighbours; nothing is trained again."""

    name: ClassVar[str] = "neighbours"
    summary: ClassVar[str] = "How many neighbours should vote on the sender of an update?"
    columns: ClassVar[tuple[str, ...]] = ("neighbours",)
    heading: ClassVar[str] = "Average precision over the number of neighbours"
    x_label: ClassVar[str] = "neighbours who vote"
    scale: ClassVar[Literal["linear", "log", "names"]] = "log"

    attack: Annotated[str, Meta(description="which attack of the plan; it needs a setting `k`")] | None = "reid-knn"
    counts: Annotated[tuple[int, ...], Meta(min_length=1, description="how many, each in turn")] = (1, 4, 16)

    def variations(self, subject: Subject) -> list[Variation]:
        """Each number in turn."""
        return [Variation(x=float(k), label=str(k), attack={"k": k}) for k in self.counts]

    def text(self, subject: Subject, points: Sequence[Point]) -> str:
        """The best number."""
        best = max(points, key=lambda point: point.measured.value)
        return f"Most users are found with {best.label} neighbours: {format_measured(best.measured)}."
