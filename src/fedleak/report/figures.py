"""The figures of the page, drawn from an audit's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from markupsafe import Markup

from fedleak.report.formatting import format_value, interval, printable
from fedleak.report.summary import GameSummary, verdict_kind
from fedleak.report.svg import WIDTH, Axis, Box, el, figure, frame, path, shorten
from fedleak.results.audit import Score
from fedleak.results.detail import Detail

__all__ = ["comparison", "per_user", "precision_recall", "confusion", "null_distribution", "claims"]

_T = TypeVar("_T")
_MOST_BARS = 240  # more users than this are drawn as evenly spaced ranks
_MOST_POINTS = 200  # of a curve


def comparison(name: str, scene: GameSummary) -> Markup:
    """Every attack on every run, with its interval and its own chance level."""
    row, header = 22.0, 26.0
    rows = [
        (attack, [(run, score) for run in scene.runs for score in run.rows(attack, scene.metric)])
        for attack in scene.attacks
    ]
    scores = [score for _, line in rows for _, score in line]
    height = sum(header + row * len(line) for _, line in rows)
    box = Box(128, 10, WIDTH - 14, 10 + height)
    x = _share_axis(scores, box.left, box.right)
    parts: list[str] = [frame(box, x, None, scene.measure)]
    top = box.top
    for attack, line in rows:
        parts.append(el("text", printable(attack), x=0.0, y=top + 18, class_="strong"))
        top += header
        for run, score in line:
            middle = top + row / 2
            kind = verdict_kind(score)
            whom = f"{shorten(run.short, 10)}*" if score.adaptive else shorten(run.short, 14)
            parts.append(el("text", f"{run.key}\u2002{whom}", x=8.0, y=middle + 4, class_="tick"))
            wide = max(x(score.chance_high) - x(min(score.chance, score.chance_high)), 2.0)
            parts.append(el("rect", x=x(score.chance), y=middle - 7, width=wide, height=14.0, class_="chance"))
            parts.append(_bar(x(score.low), middle, x(score.high), middle, kind, cap=4))
            knowing = ", defence-aware" if score.adaptive else ""
            dot = el("title", f"{attack} on {run.label}{knowing}: {_said(score)}")
            parts.append(el("circle", dot, cx=x(score.value), cy=middle, r=4.0, class_=f"dot {kind}"))
            top += row
    told = "; ".join(f"{s.attack} on {run.label} {_said(s)}" for _, line in rows for run, s in line)
    return figure(name, "Every attack on every run", f"Grey marks are chance. {told}.", box.bottom + 44, *parts)


def per_user(name: str, detail: Detail, score: Score | None) -> Markup | None:
    """How identifiable each user is, most identifiable first: a mean can hide users who are always identified."""
    if not detail.users:
        return None
    values = sorted((user.ap for user in detail.users), reverse=True)
    drawn = _thin(values, _MOST_BARS)
    box = Box(36, 30, WIDTH - 14, 200)
    x, y = Axis(0, len(drawn), box.left, box.right), Axis(0, 1, box.bottom, box.top)
    step = x(1) - x(0)
    parts: list[str] = [_levels(box, y, "average precision")]
    for rank, value in enumerate(drawn):
        height = max(box.bottom - y(value), 0.75)
        gap = min(step * 0.2, 1.5)
        parts.append(
            el("rect", x=x(rank) + gap / 2, y=box.bottom - height, width=step - gap, height=height, class_="bar")
        )
    if score is not None:
        parts.append(_rule(box, y(score.chance), f"dashed: chance {format_value(score.chance)}"))
    middle = (box.left + box.right) / 2
    many = len(values)
    axis = f"{many} users, most identifiable first"
    parts.append(el("text", axis, x=middle, y=box.bottom + 18, class_="axis", text_anchor="middle"))
    certain = sum(value > 0.9 for value in values)
    told = (
        f"The most identifiable user has {format_value(values[0])}, the median {format_value(values[many // 2])}, "
        f"the least {format_value(values[-1])}; {certain} of {many} are above 0.9."
    )
    return figure(name, "Average precision of each user", told, 226, *parts)


def precision_recall(name: str, detail: Detail, control: Detail | None) -> Markup | None:
    """Precision over recall of an attack's predictions, beside the control."""
    if not detail.recall:
        return None
    box = Box(36, 30, WIDTH - 14, 200)
    x, y = Axis(0, 1, box.left, box.right), Axis(0, 1, box.bottom, box.top)
    parts: list[str] = [
        frame(box, x, y, "recall: share of the true answers found", "precision: share of predictions that are right")
    ]
    if control is not None and control.recall:
        parts.append(el("path", d=_curve(control, x, y), class_="curve quiet"))
    parts.append(el("path", d=_curve(detail, x, y), class_="curve leak"))
    half = next((p for r, p in zip(detail.recall, detail.precision, strict=True) if r >= 0.5), detail.precision[-1])
    told = f"At a recall of 0.5 the precision is {format_value(half)}."
    if control is not None and control.recall:
        told += " The dashed line is the control."
    return figure(name, "Precision and recall", told, 242, *parts)


def confusion(name: str, detail: Detail) -> Markup | None:
    """Confusion matrix of the most and the least identifiable users."""
    users = [printable(user) for user in detail.confusion_users]
    if not users:
        return None
    left, top = 112.0, 104.0
    cell = min((WIDTH - 84 - left) / len(users), 28.0)  # the last slanted name needs room too
    parts: list[str] = [el("text", "true sender", x=0.0, y=top - 8, class_="axis")]
    for row, (user, shares) in enumerate(zip(users, detail.confusion, strict=True)):
        middle = top + cell * (row + 0.5) + 4
        parts.append(el("text", shorten(user, 13), x=left - 6, y=middle, class_="tick", text_anchor="end"))
        at = left + cell * (row + 0.5) + 4
        turn = f"rotate(-50 {at:.2f} {top - 6:.2f})"
        parts.append(el("text", shorten(user, 13), x=at, y=top - 6, class_="tick", transform=turn))
        for column, share in enumerate(shares):
            place = {"x": left + cell * column, "y": top + cell * row}
            note = el("title", f"{user} predicted as {users[column]}: {share:.0%}")
            size = cell - 1.5
            parts.append(el("rect", **place, width=size, height=size, class_="cell"))
            parts.append(el("rect", note, **place, width=size, height=size, fill_opacity=float(share), class_="heat"))
    right = [row[i] for i, row in enumerate(detail.confusion)]
    told = (
        "Rows are true senders, columns predicted senders; darker is more often. The diagonal, from first to last: "
        + ", ".join(f"{user} {share:.0%}" for user, share in zip(users, right, strict=True))
    )
    return figure(name, "Confusion matrix", told, top + cell * len(users) + 8, *parts)


def null_distribution(name: str, detail: Detail, score: Score | None, measure: str) -> Markup | None:
    """The null distribution (identities permuted) beside the observed score."""
    if not detail.null or score is None:
        return None
    box = Box(36, 30, WIDTH - 14, 200)
    x = _share_axis([score], box.left, box.right, also=max(detail.null))
    counts, edges = np.histogram(detail.null, bins=60, range=(x.low, x.high))
    y = Axis(0, float(counts.max()) * 1.15, box.bottom, box.top)
    parts: list[str] = [frame(box, x, None, measure)]
    parts.append(el("text", "how often, with identities permuted", x=0.0, y=box.top - 12, class_="axis"))
    for count, start, stop in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if count:
            high = box.bottom - y(count)
            wide = x(stop) - x(start) - 0.5
            parts.append(el("rect", x=x(start), y=y(count), width=wide, height=high, class_="null"))
    kind = verdict_kind(score)
    low, high = x(score.low), x(score.high)
    tall = box.bottom - box.top
    parts.append(el("rect", x=low, y=box.top, width=max(high - low, 1.0), height=tall, class_=f"span {kind}"))
    at = x(score.value)
    parts.append(el("line", x1=at, x2=at, y1=box.top, y2=box.bottom, class_=f"mark {kind}"))
    anchor, shift = ("end", -6.0) if at > (box.left + box.right) / 2 else ("start", 6.0)
    parts.append(
        el(
            "text",
            f"observed {format_value(score.value)}",
            x=at + shift,
            y=box.top + 14,
            class_="strong",
            text_anchor=anchor,
        )
    )
    beaten = sum(value < score.value for value in detail.null)
    told = (
        f"Observed {_said(score)}. It is above {beaten} of {len(detail.null)} permutations of the identities, "
        f"whose largest value is {format_value(max(detail.null))}."
    )
    return figure(name, "Observed against chance", told, 242, *parts)


def claims(name: str, detail: Detail) -> Markup | None:
    """Histograms of the predictions where the answer is yes and where it is no: less overlap is a stronger attack."""
    found = detail.claims
    if found is None or len(found.edges) < 2:
        return None
    box = Box(36, 30, WIDTH - 14, 200)
    shares = {
        kind: [n / max(1, sum(counts)) for n in counts] for kind, counts in (("no", found.no), ("yes", found.yes))
    }
    x = Axis(found.edges[0], max(found.edges[-1], found.edges[0] + 1e-9), box.left, box.right)
    y = Axis(0, max([1e-9, *shares["yes"], *shares["no"]]) * 1.1, box.bottom, box.top)
    parts: list[str] = [frame(box, x, None, "prediction: confidence of the attack")]
    parts.append(el("text", "share of the questions", x=0.0, y=box.top - 12, class_="axis"))
    for kind, heights in shares.items():
        for share, start, stop in zip(heights, found.edges[:-1], found.edges[1:], strict=True):
            wide, tall = max(x(stop) - x(start) - 0.5, 0.5), box.bottom - y(share)
            if share:
                parts.append(el("rect", x=x(start), y=y(share), width=wide, height=tall, class_=f"answer {kind}"))
    for kind, at in (("no", box.right - 130), ("yes", box.right - 62)):
        parts.append(el("rect", x=at, y=box.top - 22, width=12.0, height=10.0, class_=f"answer {kind}"))
        parts.append(el("text", kind, x=at + 17, y=box.top - 12, class_="tick"))
    told = "; ".join(
        f"answer {kind}: {sum(counts)} questions, most of them with predictions near {_middle(found.edges, counts)}"
        for kind, counts in (("yes", found.yes), ("no", found.no))
    )
    return figure(name, "Predictions by the true answer", f"{told}.", 242, *parts)


def _middle(edges: Sequence[float], counts: Sequence[int]) -> str:
    place = max(range(len(counts)), key=counts.__getitem__)
    return f"{(edges[place] + edges[place + 1]) / 2:.3g}"


def _said(score: Score) -> str:
    return f"{interval(score)}, chance {format_value(score.chance)}"


def _share_axis(scores: Sequence[Score], start: float, stop: float, also: float = 0.0) -> Axis:
    """From zero, so that shares are comparable, to just above the largest value."""
    largest = max([also, *(max(score.high, score.chance_high) for score in scores)], default=1.0)
    return Axis(0.0, min(max(largest * 1.08, 0.05), 1.0), start, stop)


def _levels(box: Box, y: Axis, label: str) -> Markup:
    parts = [el("text", label, x=0.0, y=box.top - 12, class_="axis")]
    for level in (0.0, 0.5, 1.0):
        parts.append(el("line", x1=box.left, x2=box.right, y1=y(level), y2=y(level), class_="grid"))
        parts.append(el("text", f"{level:g}", x=box.left - 6, y=y(level) + 4, class_="tick", text_anchor="end"))
    return Markup("").join(parts)


def _rule(box: Box, at: float, label: str) -> Markup:
    line = el("line", x1=box.left, x2=box.right, y1=at, y2=at, class_="rule")
    return line + el("text", label, x=box.right, y=box.top - 12, class_="axis", text_anchor="end")


def _bar(x1: float, y1: float, x2: float, y2: float, kind: str, cap: float) -> Markup:
    """An interval with caps across its ends."""
    dx, dy = (cap, 0.0) if x1 == x2 else (0.0, cap)
    lines = [(x1, y1, x2, y2), (x1 - dx, y1 - dy, x1 + dx, y1 + dy), (x2 - dx, y2 - dy, x2 + dx, y2 + dy)]
    return Markup("").join(el("line", x1=a, y1=b, x2=c, y2=d, class_=f"interval {kind}") for a, b, c, d in lines)


def _curve(detail: Detail, x: Axis, y: Axis) -> str:
    points = list(zip(detail.recall, detail.precision, strict=True))
    kept = [points[i] for i in _thin(range(len(points)), _MOST_POINTS)]
    return path((x(recall), y(precision)) for recall, precision in kept)


def _thin(values: Sequence[_T], most: int) -> list[_T]:
    """Keep at most this many values, evenly spaced, with both ends."""
    if len(values) <= most:
        return list(values)
    return [values[i] for i in np.linspace(0, len(values) - 1, most).round().astype(int).tolist()]
