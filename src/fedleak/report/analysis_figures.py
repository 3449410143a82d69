"""The figures of analyses, drawn from their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from markupsafe import Markup

from fedleak.report.formatting import column, format_value, printable
from fedleak.report.plots import LETTER, Mark, grid, legend, marks, point, scale, spread, value_axis
from fedleak.report.svg import WIDTH, Axis, Box, el, figure, path, shorten
from fedleak.results.detail import Figure, Series

__all__ = ["draw_figure"]

_BOX = Box(40, 30, WIDTH - 14, 240)
_MOST_DOTS = 1500  # of a scatter plot: more are illegible, and make the page large
_MOST_WRITTEN = 14  # columns of a heatmap whose cells hold their numbers
_LABEL, _HEAD = 30, 14  # letters of the name of a row and of a column


def draw_figure(name: str, drawn: Figure) -> Markup:
    """Draw any figure; `name` must be unique on the page."""
    return _KINDS[drawn.kind](name, drawn)


def _lines(name: str, drawn: Figure) -> Markup:
    lines = [_sorted(series) for series in drawn.series]
    heights = [value for series in lines for value in _heights(series)]
    y = value_axis(heights, _BOX.bottom, _BOX.top, log=drawn.log_y)
    x = scale([value for series in lines for value in series.x], drawn.x_ticks, drawn.log_x, _BOX)
    frame, bottom = grid(_BOX, x, y, drawn.x_label, drawn.y_label)
    parts, entries = [frame], []
    own = iter(marks([series.name for series in lines if not series.reference]))
    for series in lines:
        if not series.x:
            continue
        mark = None if series.reference else next(own)
        colour = mark.colour if mark else "reference"
        if series.low and series.high and len(series.x) > 1:
            edge = [*zip(series.x, series.high, strict=True), *reversed([*zip(series.x, series.low, strict=True)])]
            parts.append(el("path", d=path((x(a), y(b)) for a, b in edge) + "Z", class_=f"band {colour}"))
        elif series.low and series.high:
            parts.append(spread(x(series.x[0]), y(series.low[0]), y(series.high[0]), colour))
        places = [(x(a), y(b)) for a, b in zip(series.x, series.y, strict=True)]
        # A reference level that was measured once is drawn across the whole figure.
        if mark is None and len(places) == 1:
            places = [(_BOX.left, places[0][1]), (_BOX.right, places[0][1])]
        parts.append(el("path", d=path(places), class_=f"line {colour}"))
        if mark:
            said = [_said(series, i) for i in range(len(series.x))]
            parts += [point(a, b, mark, text) for (a, b), text in zip(places, said, strict=True)]
        entries.append((series.name, partial(_sample, mark)))
    parts_of_legend, height = legend(entries, bottom)
    return figure(name, drawn.title, _told(drawn, lines), height, *parts, parts_of_legend)


def _scatter(name: str, drawn: Figure) -> Markup:
    xs = [value for series in drawn.series for value in series.x]
    ys = [value for series in drawn.series for value in series.y]
    both = [*xs, *ys] if drawn.diagonal else None
    box = Box(_BOX.left, _BOX.top, _BOX.right, 340)
    y = Axis.around(both or ys or [0.0, 1.0], box.bottom, box.top)
    x = scale(both or xs, drawn.x_ticks, drawn.log_x and not drawn.diagonal, box)
    frame, bottom = grid(box, x, y, drawn.x_label, drawn.y_label)
    parts, entries = [frame], []
    if drawn.diagonal:
        low, high = y.low, y.high
        parts.append(el("line", x1=x(low), y1=y(low), x2=x(high), y2=y(high), class_="rule"))
    step = max(1, -(-len(xs) // _MOST_DOTS))
    for series, mark in zip(drawn.series, marks([series.name for series in drawn.series]), strict=True):
        for i in range(0, len(series.x), step):
            parts.append(point(x(series.x[i]), y(series.y[i]), mark, _said(series, i), 3.5))
        entries.append((series.name, partial(_dot, mark)))
    told = "; ".join(f"{printable(series.name)}: {len(series.x)} points" for series in drawn.series)
    if drawn.diagonal:
        above = sum(b > a for a, b in zip(xs, ys, strict=True))
        told += f". {above} of {len(xs)} points are above the dashed diagonal"
    if step > 1:
        told += f". Every {step}th point is drawn"
    legend_parts, height = legend(entries, bottom)
    return figure(name, drawn.title, f"{told}.", height, *parts, legend_parts)


def _bars(name: str, drawn: Figure) -> Markup:
    bars = [series for series in drawn.series if not series.reference]
    levels = [series for series in drawn.series if series.reference]
    y = value_axis([0.0, *(value for series in drawn.series for value in _heights(series))], _BOX.bottom, _BOX.top)
    groups = sorted({value for series in drawn.series for value in series.x})
    names = drawn.x_ticks or [f"{value:g}" for value in groups]
    places = {value: value if drawn.x_ticks else float(place) for place, value in enumerate(groups)}
    x = scale([], names, False, _BOX)
    frame, bottom = grid(_BOX, x, y, drawn.x_label, drawn.y_label)
    parts, entries = [frame], []
    width = (x(1) - x(0)) * 0.72
    step = width / max(1, len(bars))
    for place, (series, mark) in enumerate(zip(bars, marks([series.name for series in bars]), strict=True)):
        for i, value in enumerate(series.x):
            left = x(places[value]) - width / 2 + step * place
            top, foot = min(y(series.y[i]), y(0)), max(y(series.y[i]), y(0))
            note = el("title", _said(series, i))
            wide = max(step - 1.5, 1.0)
            parts.append(el("rect", note, x=left, y=top, width=wide, height=foot - top, class_=f"block {mark.colour}"))
            if series.low and series.high:
                parts.append(spread(left + wide / 2, y(series.low[i]), y(series.high[i]), "ink"))
        entries.append((series.name, partial(_block, mark)))
    for series in levels:
        for value, height in zip(series.x, series.y, strict=True):
            at = x(places[value])
            parts.append(
                el("line", x1=at - width / 2 - 4, x2=at + width / 2 + 4, y1=y(height), y2=y(height), class_="rule")
            )
        entries.append((series.name, partial(_sample, None)))
    legend_parts, height = legend(entries, bottom)
    return figure(name, drawn.title, _told(drawn, drawn.series), height, *parts, legend_parts)


def _heatmap(name: str, drawn: Figure) -> Markup:
    cells = drawn.cells or []
    rows = [printable(text) for text in drawn.y_ticks or [str(i) for i in range(len(cells))]]
    heads = [printable(text) for text in drawn.x_ticks or [str(i) for i in range(len(cells[0]) if cells else 0)]]
    known = [value for row in cells for value in row if value is not None]
    low, high = min([0.0, *known]), max([0.0, *known])
    size = max(abs(low), abs(high)) or 1.0
    left = max([len(shorten(text, _LABEL)) for text in rows] or [1]) * LETTER + 10
    longest = max([len(shorten(text, _HEAD)) for text in heads] or [1])
    slanted = longest * LETTER > min((WIDTH - left - 6) / max(1, len(heads)), 64.0)
    lean = longest * LETTER * 0.64 if slanted else 6.0  # the last slanted name needs room too
    wide = min((WIDTH - left - lean) / max(1, len(heads)), 64.0)
    tall = min(max(wide, 20.0), 30.0)
    top = 42 + (longest * LETTER * 0.77 if slanted else 14)
    parts = [el("text", f"columns: {shorten(printable(drawn.x_label), 46)}", x=0.0, y=12.0, class_="axis")]
    parts.append(el("text", f"rows: {shorten(printable(drawn.y_label), 50)}", x=0.0, y=28.0, class_="axis"))
    for place, head in enumerate(heads):
        at = left + wide * (place + 0.5)
        turn = f"rotate(-50 {at + 4:.2f} {top - 6:.2f})" if slanted else None
        anchor = "start" if slanted else "middle"
        x = at + 4 if slanted else at
        parts.append(
            el("text", shorten(head, _HEAD), x=x, y=top - 6, class_="tick", text_anchor=anchor, transform=turn)
        )
    written = len(heads) <= _MOST_WRITTEN and wide >= 26
    for row, (label, values) in enumerate(zip(rows, cells, strict=True)):
        middle = top + tall * (row + 0.5)
        parts.append(el("text", shorten(label, _LABEL), x=left - 6, y=middle + 4, class_="tick", text_anchor="end"))
        for place, value in enumerate(values):
            at = left + wide * place
            shape = {"x": at, "y": top + tall * row, "width": wide - 1.5, "height": tall - 1.5}
            parts.append(el("rect", **shape, class_="cell"))
            if value is None:
                continue
            share = abs(value) / size
            said = el("title", f"{label}, {heads[place]}: {_short(value)}")
            kind = "cold" if value < 0 else "heat"
            parts.append(el("rect", said, **shape, fill_opacity=0.94 * share, class_=kind))
            if written:
                over = "written over" if share > 0.55 else "written"
                text = el(
                    "text", _short(value), x=at + wide / 2 - 0.75, y=middle + 3.5, class_=over, text_anchor="middle"
                )
                parts.append(text)
    bottom = top + tall * len(rows)
    steps = [low, low / 2, 0.0, high / 2, high] if low < 0 < high else [low + (high - low) * i / 4 for i in range(5)]
    for i, value in enumerate(steps):
        shape = {"x": 8 + 52.0 * i, "y": bottom + 14, "width": 50.0, "height": 10.0}
        parts.append(el("rect", **shape, class_="cell"))
        kind = "cold" if value < 0 else "heat"
        parts.append(el("rect", **shape, fill_opacity=0.94 * abs(value) / size, class_=kind))
        parts.append(el("text", _short(value), x=8 + 52.0 * i + 25, y=bottom + 40, class_="tick", text_anchor="middle"))
    told = "; ".join(
        f"{label}: " + ", ".join("not measured" if value is None else _short(value) for value in values)
        for label, values in zip(rows, cells, strict=True)
    )
    whole = f"Columns: {', '.join(heads)}. {told}." if len(known) <= 200 else f"From {_short(low)} to {_short(high)}."
    return figure(name, drawn.title, whole, bottom + 48, *parts)


_KINDS: Mapping[str, Callable[[str, Figure], Markup]] = {
    "lines": _lines,
    "scatter": _scatter,
    "bars": _bars,
    "heatmap": _heatmap,
}


def _sorted(series: Series) -> Series:
    """Sort by x, so that the line does not run back and forth."""
    order = sorted(range(len(series.x)), key=series.x.__getitem__)

    def put(values: list[float] | None) -> list[float] | None:
        return None if values is None else [values[i] for i in order]

    return Series(
        name=series.name,
        x=[series.x[i] for i in order],
        y=[series.y[i] for i in order],
        low=put(series.low),
        high=put(series.high),
        labels=None if series.labels is None else [series.labels[i] for i in order],
        reference=series.reference,
    )


def _heights(series: Series) -> list[float]:
    return [*series.y, *(series.low or []), *(series.high or [])]


def _short(value: float) -> str:
    return format_value(value) if abs(value) <= 1 else f"{value:.3g}"


def _said(series: Series, i: int) -> str:
    where = printable(series.labels[i]) if series.labels else f"{series.x[i]:g}"
    ends = f" [{_short(series.low[i])}, {_short(series.high[i])}]" if series.low and series.high else ""
    return f"{printable(series.name)}, {where}: {_short(series.y[i])}{ends}"


def _told(drawn: Figure, lines: Sequence[Series]) -> str:
    """The figure in words, with every value: a line seldom has many."""
    told = []
    for series in lines:
        if series.labels:
            where = [printable(label) for label in series.labels]
        elif drawn.x_ticks:
            where = [printable(drawn.x_ticks[int(a)]) if 0 <= a < len(drawn.x_ticks) else f"{a:g}" for a in series.x]
        else:
            where = [f"{a:g}" for a in series.x]
        values = column(series.y)
        told.append(
            f"{printable(series.name)}: " + ", ".join(f"{b} at {a}" for a, b in zip(where, values, strict=True))
        )
    return "; ".join(told) + "."


def _sample(mark: Mark | None, x: float, y: float) -> Markup:
    colour = mark.colour if mark else "reference"
    line = el("path", d=path([(x - 9, y), (x + 9, y)]), class_=f"line {colour}")
    return line + point(x, y, mark, "") if mark else line


def _dot(mark: Mark, x: float, y: float) -> Markup:
    return point(x, y, mark, "")


def _block(mark: Mark, x: float, y: float) -> Markup:
    return el("rect", x=x - 6, y=y - 5, width=12.0, height=10.0, class_=f"block {mark.colour}")
