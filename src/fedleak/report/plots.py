"""What the figures of analyses share: scales, marks, legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from fedleak.report.formatting import printable
from fedleak.report.svg import WIDTH, Axis, Box, LogAxis, el, labels, shorten

__all__ = ["LETTER", "Mark", "Scale", "marks", "point", "scale", "value_axis", "grid", "legend", "spread"]

_COLOURS, _SHAPES = 8, 4
LETTER = 7.4  # width of a letter of a tick at its largest, on a phone


@dataclass(frozen=True, slots=True)
class Mark:
    """How one series is distinguished from the others: by colour, and by shape for colour-blind readers."""

    colour: str
    shape: int
    hollow: bool = False


def marks(names: Sequence[str]) -> list[Mark]:
    """One for each series; `name, side` have the colour of `name`, and the second of them is hollow."""
    groups = [name.rpartition(", ")[0] or name for name in names]
    order = list(dict.fromkeys(groups))
    found = []
    for place, group in enumerate(groups):
        number = order.index(group)
        found.append(Mark(f"c{number % _COLOURS}", number // _COLOURS % _SHAPES, group in groups[:place]))
    if len(order) <= _SHAPES:  # few enough for a shape of their own each
        return [Mark(mark.colour, order.index(group), mark.hollow) for mark, group in zip(found, groups, strict=True)]
    return found


def point(x: float, y: float, mark: Mark, said: str, size: float = 4.0) -> Markup:
    """One point with its tooltip."""
    kind = f"{'hollow' if mark.hollow else 'solid'} {mark.colour}"
    note = el("title", said) if said else Markup("")
    if mark.shape == 0:
        return el("circle", note, cx=x, cy=y, r=size, class_=kind)
    corners: list[tuple[float, float]] = {
        1: [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2: [(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        3: [(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)],
    }[mark.shape]
    around = " ".join(f"{x + size * 0.95 * dx:.2f},{y + size * 0.95 * dy:.2f}" for dx, dy in corners)
    return el("polygon", note, points=around, class_=kind)


@dataclass(frozen=True, slots=True)
class Scale:
    """The x axis: positions of values, and which of them are labelled."""

    axis: Axis
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def __call__(self, value: float) -> float:
        """The position of a value."""
        return self.axis(math.log10(value) if self.log else value)


def scale(values: Sequence[float], names: Sequence[str] | None, log: bool, box: Box) -> Scale:
    """A scale for these values: with names for whole numbers, logarithmic where asked and possible, or straight."""
    if names is not None:
        axis = Axis(-0.5, max(1, len(names)) - 0.5, box.left, box.right)
        return Scale(axis, False, tuple((float(place), printable(name)) for place, name in enumerate(names)))
    if log and min(values, default=0.0) > 0:
        axis = Axis.around([math.log10(value) for value in values], box.left, box.right)
        return Scale(axis, True, tuple((value, f"{value:g}") for value in sorted(set(values))))
    axis = Axis.around(
        values or [0.0, 1.0], box.left, box.right, least=0.02 * max(map(abs, values), default=1.0) or 0.02
    )
    ticks = axis.ticks()
    return Scale(axis, False, tuple(zip(ticks, labels(ticks), strict=True)))


def value_axis(values: Sequence[float], start: float, stop: float, *, log: bool = False) -> Axis:
    """From zero where nothing is negative, and at most one where everything is a share; or logarithmic."""
    if log and min(values, default=0.0) > 0:
        low, high = math.floor(math.log10(min(values)) + 1e-9), math.ceil(math.log10(max(values)) - 1e-9)
        return LogAxis(low, max(high, low + 1), start, stop)
    if not values or min(values) < 0:
        return Axis.around(values or [0.0, 1.0], start, stop)
    largest = max(values)
    top = max(largest * 1.08, 1e-6)
    return Axis(0.0, min(top, 1.0) if largest <= 1 else top, start, stop)


def grid(box: Box, x: Scale, y: Axis, x_label: str, y_label: str) -> tuple[Markup, float]:
    """Grid lines, ticks and axis labels, and their lowest position. Ticks that would overlap are left out."""
    parts = [el("text", shorten(printable(y_label), 58), x=0.0, y=box.top - 12, class_="axis")]
    ticks = y.ticks()
    for tick, text in zip(ticks, labels(ticks), strict=True):
        parts.append(el("line", x1=box.left, x2=box.right, y1=y(tick), y2=y(tick), class_="grid"))
        parts.append(el("text", text, x=box.left - 6, y=y(tick) + 4, class_="tick", text_anchor="end"))
    named = [(x(value), shorten(text, 16)) for value, text in x.ticks]
    room = min((b - a for (a, _), (b, _) in pairwise(named)), default=WIDTH)
    slanted = bool(named) and max(len(text) for _, text in named) * LETTER > room and not x.log
    slanted = slanted and any(not text.replace(".", "").isdigit() for _, text in named)
    bottom, last = box.bottom + 16, -WIDTH
    for at, text in named:
        parts.append(el("line", x1=at, x2=at, y1=box.top, y2=box.bottom, class_="grid"))
        half = len(text) * LETTER / 2
        if slanted:
            turn = f"rotate(-38 {at:.2f} {box.bottom + 14:.2f})"
            parts.append(el("text", text, x=at, y=box.bottom + 14, class_="tick", text_anchor="end", transform=turn))
            bottom = max(bottom, box.bottom + 18 + len(text) * LETTER * 0.62)
        elif at - half > last:
            parts.append(el("text", text, x=at, y=box.bottom + 16, class_="tick", text_anchor="middle"))
            last = at + half + 4
    middle = (box.left + box.right) / 2
    bottom += 20
    parts.append(el("text", shorten(printable(x_label), 52), x=middle, y=bottom, class_="axis", text_anchor="middle"))
    return Markup("").join(parts), bottom + 6


def legend(entries: Iterable[tuple[str, Callable[[float, float], Markup]]], top: float) -> tuple[Markup, float]:
    """Names beside their marks, in lines that fit the figure, and the height of the last line."""
    parts, left, line = [], 4.0, top + 14
    for name, drawn in entries:
        text = shorten(printable(name), 44)
        wide = 30 + len(text) * LETTER
        if left > 4 and left + wide > WIDTH:
            left, line = 4.0, line + 19
        parts += [drawn(left + 9, line - 4), el("text", text, x=left + 24, y=line, class_="tick")]
        left += wide
    return Markup("").join(parts), (line + 8 if parts else top)


def spread(x: float, low: float, high: float, colour: str, cap: float = 3.5) -> Markup:
    """An upright interval with caps."""
    lines = [(x, low, x, high), (x - cap, low, x + cap, low), (x - cap, high, x + cap, high)]
    return Markup("").join(el("line", x1=a, y1=b, x2=c, y2=d, class_=f"whisker {colour}") for a, b, c, d in lines)
