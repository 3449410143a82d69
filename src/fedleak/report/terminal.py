"""The result in the terminal: a short story, then one table. Colour only repeats what the words say."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedleak.report import tradeoff
from fedleak.report.formatting import column, format_value, interval, printable, run_label
from fedleak.report.metrics import kind_of, short_name
from fedleak.report.sentences import Column, columns, found
from fedleak.report.summary import (
    GameSummary,
    RunSummary,
    compared,
    control_held,
    failed,
    game_summaries,
    helped,
    leaks,
    over_limit,
    verdict,
)
from fedleak.score.defence_results import Effect, Promised, Tradeoff
from fedleak.score.result import Analysis, Audit, Score, Utility

__all__ = ["show", "show_analysis", "show_checks"]

_MOST_ROWS = 12  # of an analysis


def show(audit: Audit, console: Console) -> None:
    """Tell a user who never heard of the papers what an audit found, then give the numbers."""
    console.print()
    console.print(Text(printable(audit.title), style="bold"))
    if audit.story:
        console.print(Text(printable(" ".join(audit.story.split()))))
    for line in audit.warnings:
        console.print()
        console.print(Text(f"Warning: {printable(line)}", style="bold yellow"))
    told: set[str] = set()
    for scene in game_summaries(audit):
        console.print()
        # Who attacks, and how good the model is, need saying once; what they ask differs from game to game.
        _story(scene, console, first=scene.adversary not in told)
        told.add(scene.adversary)
        console.print()
        _tables(scene, console)
        console.print(Text(_note(scene), style="dim"))
    for weighed in audit.tradeoffs:
        console.print()
        _prices(weighed, console, alone=len(audit.tradeoffs) == 1)
    show_checks(audit.effects, audit.promises, console)
    for line in failed(audit):
        console.print(Text(f"Could not be run: {printable(line)}", style="yellow"))
    for analysis in audit.analyses:
        console.print()
        show_analysis(analysis, console)
    for finding in audit.findings:
        console.print(Text(f"Before the run ({finding.action}): {printable(finding.text)}"))
    for line in over_limit(audit.scores):
        console.print(Text(f"Over the plan's limit: {printable(line)}", style="bold red"))


def _story(scene: GameSummary, console: Console, *, first: bool) -> None:
    threat = scene.threat
    who = f"{scene.adversary}: {threat.summary}" if threat else scene.adversary
    _point(console, "Who attacks", who if first else f"{scene.adversary}, as before")
    if threat is not None and first:
        _point(console, "They see", "; ".join(threat.sees) or "nothing")
        if threat.capabilities:
            _point(console, "They can", "; ".join(threat.capabilities))
    _point(console, "They ask", scene.question)
    if scene.undefended is not None:
        best = scene.undefended.strongest(scene.metric)
        shown = best is not None and leaks(best)
        _point(console, "They found", found(scene.undefended, scene.metric), "bold red" if shown else "bold")
        if best is not None:
            _point(console, "", f"{best.attack}, {scene.measure}: {verdict(best)}")
        if scene.undefended.utility is not None and first:
            _point(console, "The model", compared(scene.undefended.utility))
    held, words = control_held(scene)
    _point(console, "Control", words, "" if held else "yellow")
    for run in scene.defended:
        _point(console, "Defence", f"{run.label}: {helped(scene, run)}")


def show_checks(effects: Sequence[Effect], promised: Sequence[Promised], console: Console) -> None:
    """What each defence changes of what leaves the clients, and what it promises."""
    given = {run_label(one.defence, None): one.promises for one in promised}
    for one in effects:
        console.print()
        console.print(Text(printable(tradeoff.changes(one)), style="bold red" if one.idle else ""))
        for promise in given.get(run_label(one.defence, None), []):
            style = "bold red" if promise.contradicted else "dim"
            console.print(Text(f"  {printable(tradeoff.promise(promise))}", style=style))


def _prices(weighed: Tradeoff, console: Console, *, alone: bool) -> None:
    """What each defence buys and costs, and which one to take."""
    against = "" if alone else f" ({weighed.adversary}, {weighed.game})"
    console.print(Text(f"What it would cost to stop that{against}", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    lines = tradeoff.rows(weighed)
    for place, title in enumerate(tradeoff.COLUMNS):
        if place == 1 or not any(line[place] for line in lines):  # which attack it was stands in the table above
            continue
        table.add_column(Text(title), justify="left" if place < 2 else "right", overflow="fold")
    for line in lines:
        table.add_row(
            *(
                Text(printable(cell))
                for place, cell in enumerate(line)
                if place != 1 and any(other[place] for other in lines)
            )
        )
    console.print(table)
    console.print(Text(printable(weighed.advice), style="bold"))


def _point(console: Console, name: str, text: str, style: str = "") -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=11, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, style="bold"), Text(printable(text), style=style))
    console.print(grid)


def _tables(scene: GameSummary, console: Console) -> None:
    """One table in strips: a line per run with its utility, then its attacks under the same columns."""
    level = next((score.level for run in scene.runs for score in run.scores), 0.95)
    name = short_name(scene.metric, scene.game)
    first = max(20, *(len(attack) + 11 for attack in scene.attacks))
    beside = columns(scene)
    head = _strip(first, beside)
    titles = ("", f"{name} [{level:.0%} interval]", *(shown.narrow for shown in beside))
    head.add_row(*(Text(title, style="bold") for title in titles))
    console.print(head)
    for run in scene.runs:
        line = Table.grid(padding=(0, 2), expand=False)
        # Utility belongs to the run, not to an attack on it, so it stands once, on the run's own line.
        line.add_row(Text(run.label, style="bold"), Text(_utility(run.utility)))
        console.print(line)
        strip = _strip(first, beside)
        for attack in scene.attacks:
            for score in run.rows(attack, scene.metric):
                strip.add_row(*_row(run, score, beside))
        console.print(strip)


def _strip(first: int, beside: Sequence[Column]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=first, overflow="fold")
    table.add_column(width=23, no_wrap=True)
    for shown in beside:
        table.add_column(width=max(6, len(shown.narrow)), justify="right", no_wrap=True)
    return table


def _row(run: RunSummary, score: Score, beside: Sequence[Column]) -> tuple[Text, ...]:
    style = "red" if leaks(score) else ""
    return (
        Text(f"  {printable(score.attack)}{', adapted' if score.adaptive else ''}"),
        Text(interval(score), style=style),
        *(Text(shown.cell(run, score)) for shown in beside),
    )


def _utility(utility: Utility | None) -> str:
    if utility is None:
        return ""
    change = "" if utility.undefended is None else f" ({utility.value - utility.undefended:+.3f} against no defence)"
    return f"{utility.metric} {format_value(utility.value)}{change}"


def show_analysis(analysis: Analysis, console: Console) -> None:
    """The text and the first rows; the page has the figures."""
    console.print(Text(printable(analysis.title), style="bold"))
    console.print(Text(printable(" ".join(analysis.text.split()))))
    shown = analysis.rows[:_MOST_ROWS]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    written = [column(values) for values in zip(*shown, strict=True)]
    for place, title in enumerate(analysis.columns if shown else []):
        words = any(isinstance(row[place], str) for row in shown)
        table.add_column(Text(printable(title)), justify="left" if words else "right", overflow="fold")
    for row in zip(*written, strict=True):
        table.add_row(*(Text(cell) for cell in row))
    if shown:
        console.print(table)
    if len(shown) < len(analysis.rows):
        console.print(Text(f"{len(analysis.rows) - len(shown)} more rows are in the report.", style="dim"))


def _note(scene: GameSummary) -> str:
    asked = max((score.n for run in scene.runs for score in run.scores), default=0)
    records = (
        "named: secrets named for anybody at all; whose: of these, named first for their owner's client; edits: "
        "characters to be changed in the first guess. "
        if kind_of(scene.game) == "extract"
        else ""
    )
    return (
        f"n={asked} questions a run. {records}Chance is the same score with identities permuted. An attack "
        "that finds nothing shows only that this attack finds nothing."
    )
