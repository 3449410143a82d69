"""Single users: a mean says nothing about the worst-off one. One line per game in the terminal, a plot on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup
from rich.console import Console
from rich.text import Text

from fedleak.core import format_interval, in_unit
from fedleak.report.formatting import format_value, percent, printable
from fedleak.report.section import Section
from fedleak.report.summary import GameSummary, RunSummary, game_summaries
from fedleak.report.svg import WIDTH, Axis, Box, el, figure, frame
from fedleak.results.audit import Audit, Score
from fedleak.results.users import UserTail

__all__ = ["Users", "tail_of", "told", "strip_plot"]

_MOST_DOTS = 240
_COLUMNS = 68  # of dots that lie on each other


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTail:
    """The users of one run under its strongest attack."""

    run: RunSummary
    score: Score
    tail: UserTail


class Users(Section):
    """Single users under the strongest attack on every run; none is named."""

    name: ClassVar[str] = "users"
    link: ClassVar[str] = "Single users"
    title: ClassVar[str] = "The worst-off users"
    by_unit: ClassVar[bool] = True

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """A plot of the undefended run and a line for every run, by adversary and game."""
        scenes = []
        for place, scene in enumerate(game_summaries(audit)):
            rows = [found for run in scene.runs if (found := tail_of(scene, run))]
            first = next((row for row in rows if row.run is scene.undefended), None)
            if first is not None:
                drawn = strip_plot(f"users-{place}", first.tail)
                scenes.append({"scene": scene, "rows": rows, "tail": first.tail, "score": first.score, "drawn": drawn})
        return {"scenes": scenes, "told": told, "shown": shown, "interval": format_interval} if scenes else None

    def show(self, audit: Audit, console: Console) -> None:
        """One line for every adversary and game, about the undefended run."""
        found = [
            (scene, strongest)
            for scene in game_summaries(audit)
            if scene.undefended is not None and (strongest := tail_of(scene, scene.undefended))
        ]
        if found:
            console.print()
            console.print(Text(in_unit(self.title, found[0][1].score.unit), style="bold"))
        for scene, strongest in found:
            named = f"{scene.adversary}, {scene.game}, {strongest.score.attack}"
            text = in_unit(told(strongest.tail), strongest.score.unit)
            console.print(Text(printable(f"{named}: {text}"), style="red" if strongest.tail.leaks else ""))


def tail_of(scene: GameSummary, run: RunSummary) -> RunTail | None:
    """The users of a run under its strongest attack, if the game scores single users."""
    score = run.strongest(scene.metric)
    for detail in run.details if score is not None else ():
        if score is not None and (detail.attack, detail.adaptive) == (score.attack, score.adaptive):
            return RunTail(run=run, score=score, tail=detail.user_tail) if detail.user_tail else None
    return None


def told(tail: UserTail) -> str:
    """The worst-off user and the share above the threshold, in words."""
    worst = (
        f"Worst-off user: {format_interval(tail.worst, tail.worst_low, tail.worst_high)} "
        f"(permuted identities: lower end up to {format_value(tail.worst_low_chance)})"
    )
    if not tail.leaks:
        worst += f", {shown(tail)} (p = {format_value(tail.p)})"
    share = f"{percent(tail.share)} [{percent(tail.share_low)}, {percent(tail.share_high)}] of users {tail.above}"
    return f"{worst}; {share} (chance {percent(tail.share_chance)})."


def shown(tail: UserTail) -> str:
    """What the test shows about users: that one leaks, that some do but not which, or nothing."""
    if tail.leaks:
        return "a user leaks"
    return "some users leak, but not shown which" if tail.p <= 1 - tail.level else "no single user is shown to leak"


def strip_plot(name: str, tail: UserTail) -> Markup:
    """One dot per user; equal scores are stacked. Shaded: up to the tail of users with identities permuted."""
    box = Box(14, 22, WIDTH - 14, 130)
    x = Axis(0, 1, box.left, box.right)
    parts: list[str] = [frame(box, x, None, "score of a user")]
    tall = box.bottom - box.top
    luck = x(tail.tail_chance) - x(0)
    parts.append(el("rect", x=x(0), y=box.top, width=max(luck, 1.0), height=tall, class_="chance"))
    at = x(tail.threshold)
    parts.append(el("line", x1=at, x2=at, y1=box.top, y2=box.bottom, class_="rule"))
    parts.append(el("text", f"threshold {tail.threshold:g}", x=at, y=box.top - 8, class_="axis", text_anchor="middle"))
    step = max(1, -(-len(tail.values) // _MOST_DOTS))
    stacks: dict[int, int] = {}
    columns = [round(value * _COLUMNS) for value in tail.values[::step]]
    highest = max((columns.count(column) for column in set(columns)), default=1)
    rise = min(6.0, (tall - 8) / max(highest, 1))  # a tall stack is pressed together, not cut
    for column, value in zip(columns, tail.values[::step], strict=True):
        height = box.bottom - 4 - rise * stacks.setdefault(column, 0)
        stacks[column] += 1
        kind = "leak" if tail.leaks and value > tail.threshold else "quiet"
        dot = el("title", format_value(value))
        parts.append(el("circle", dot, cx=x(column / _COLUMNS), cy=height, r=2.7, class_=f"dot {kind}"))
    said = (
        f"{tail.users} users. Mean {format_value(tail.mean)}, highest {format_value(max(tail.values, default=0.0))}; "
        f"with identities permuted, nine in ten users have at most {format_value(tail.tail_chance)}."
    )
    return figure(name, "Score of each user", said, box.bottom + 42, *parts)
