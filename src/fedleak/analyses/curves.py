"""What was measured, as points of a curve, rows of a table and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.core import format_interval, format_value
from fedleak.results.detail import Series
from fedleak.score.score import Measured

__all__ = ["COLUMNS", "Point", "line", "curve", "numbers", "format_measured", "doubling"]

COLUMNS = ["AP", "low", "high", "chance", "times chance", "users"]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve: its position, its label, and what was measured there."""

    x: float
    label: str
    measured: Measured


def line(
    name: str,
    points: Sequence[tuple[float, float, float, float]],
    *,
    labels: list[str] | None = None,
    reference: bool = False,
) -> Series:
    """A line through (x, value, low, high)."""
    x, y, low, high = ([point[i] for point in points] for i in range(4))
    return Series(name=name, x=x, y=y, low=low, high=high, labels=labels, reference=reference)


def curve(name: str, points: Sequence[Point], *, chance: str = "chance") -> list[Series]:
    """A line with intervals, and its chance level beside it."""
    found = [(point.x, point.measured.value, point.measured.low, point.measured.high) for point in points]
    level = [point.measured.chance for point in points]
    return [
        line(name, found, labels=[point.label for point in points]),
        Series(name=chance, x=[point.x for point in points], y=level, reference=True),
    ]


def numbers(found: Measured) -> list[str | float | None]:
    """What was measured, in the order of COLUMNS."""
    times = found.value / found.chance if found.chance > 0 else None
    return [found.value, found.low, found.high, found.chance, times, found.users]


def format_measured(found: Measured) -> str:
    """A measured number in a sentence: `0.41 [0.36, 0.47], chance 0.02`."""
    return f"{format_interval(found.value, found.low, found.high)}, chance {format_value(found.chance)}"


def doubling(most: float) -> list[int]:
    """1, 2, 4, ... below a number.

    >>> doubling(20), doubling(4)
    ([1, 2, 4, 8, 16], [1, 2])
    """
    return [2**power for power in range(int(np.ceil(np.log2(max(most, 1)))))]
