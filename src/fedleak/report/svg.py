"""Minimal SVG: elements that escape their content, linear axes, and a frame that a screen reader can read.

Colours are classes, not values, so that one figure serves light, dark and printed pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

__all__ = ["Axis", "LogAxis", "Box", "el", "figure", "frame", "labels", "shorten", "path"]

WIDTH = 440.0  # of every figure, in units of about one CSS pixel: legible on a phone without zooming


def el(tag: str, *children: str, **attributes: object) -> Markup:
    """Write one element; text and attribute values are escaped, so a user's name can never become markup.

    >>> el("text", "<b>", x=1.504, class_="tick", stroke_width=2)
    Markup('<text x="1.5" class="tick" stroke-width="2">&lt;b&gt;</text>')
    """
    # Markup is built by hand only here, so every input is escaped here.
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = "".join(str(escape(child)) for child in children)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def _value(value: object) -> str:
    # Two decimals are finer than any screen, and keep the file small and equal on every machine.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def path(points: Iterable[tuple[float, float]]) -> str:
    """Join points to the `d` of a path."""
    return "M" + "L".join(f"{_value(float(x))} {_value(float(y))}" for x, y in points)


def shorten(text: str, length: int) -> str:
    """Cut a label that would not fit.

    >>> shorten("a-rather-long-name", 8)
    'a-rathe…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear map from values to positions."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """The position of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers between the ends."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [tick * step for tick in range(first, math.floor(self.high / step + 1e-9) + 1)]

    @staticmethod
    def around(values: Sequence[float], start: float, stop: float, least: float = 0.02) -> Axis:
        """An axis with margins around the values, however close together they are."""
        low, high = min(values), max(values)
        air = max(0.12 * (high - low), least)
        return Axis(low - air, high + air, start, stop)


@dataclass(frozen=True, slots=True)
class LogAxis(Axis):
    """A logarithmic one; `low` and `high` are decimal logarithms."""

    def __call__(self, value: float) -> float:
        """The position of a value."""
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.stop - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """The powers of ten between the ends."""
        return [10.0**power for power in range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Box:
    """The plot area inside a figure."""

    left: float
    top: float
    right: float
    bottom: float


def frame(box: Box, x: Axis, y: Axis | None, x_label: str, y_label: str = "") -> Markup:
    """Draw light grid lines, tick labels and the names of the axes."""
    parts: list[str] = []
    x_ticks = x.ticks()
    for tick, text in zip(x_ticks, labels(x_ticks), strict=True):
        at = x(tick)
        parts.append(el("line", x1=at, x2=at, y1=box.top, y2=box.bottom, class_="grid"))
        parts.append(el("text", text, x=at, y=box.bottom + 16, class_="tick", text_anchor="middle"))
    if y is not None:
        y_ticks = y.ticks()
        for tick, text in zip(y_ticks, labels(y_ticks), strict=True):
            at = y(tick)
            parts.append(el("line", x1=box.left, x2=box.right, y1=at, y2=at, class_="grid"))
            parts.append(el("text", text, x=box.left - 6, y=at + 4, class_="tick", text_anchor="end"))
    middle = (box.left + box.right) / 2
    parts.append(el("text", x_label, x=middle, y=box.bottom + 36, class_="axis", text_anchor="middle"))
    if y_label:
        parts.append(el("text", y_label, x=0.0, y=box.top - 12, class_="axis"))
    return Markup("").join(parts)


def labels(ticks: Sequence[float]) -> list[str]:
    """Write ticks with as few decimals as they all need."""
    for places in range(6):
        texts = [f"{tick:.{places}f}" for tick in ticks]
        if all(abs(float(text) - tick) < 1e-9 for text, tick in zip(texts, ticks, strict=True)):
            return ["0" if float(text) == 0 else text for text in texts]
    return [f"{tick:g}" for tick in ticks]


def figure(name: str, title: str, description: str, height: float, *parts: str) -> Markup:
    """Close a figure: a screen reader reads the title and the description instead of the drawing."""
    return el(
        "svg",
        el("title", title, id=f"{name}-t"),
        el("desc", description, id=f"{name}-d"),
        *parts,
        viewBox=f"0 0 {_value(WIDTH)} {_value(float(height))}",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
        class_="figure",
    )
