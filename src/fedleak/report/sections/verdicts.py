"""A verdict for every adversary and game, its control, and the effect of each defence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedleak.report import sentences, summary
from fedleak.report.formatting import format_value, interval, printable
from fedleak.report.section import Section
from fedleak.report.sentences import Column
from fedleak.report.spending import over_budget
from fedleak.report.summary import GameSummary, RunSummary, game_summaries
from fedleak.results.audit import Audit, Score, Utility

__all__ = ["Verdicts"]


class Verdicts(Section):
    """Verdicts come first: they are what matters most."""

    name: ClassVar[str] = "verdicts"
    link: ClassVar[str] = "Verdicts"
    title: ClassVar[str] = "What was found"
    by_unit: ClassVar[bool] = True

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """A verdict for every adversary and game, after warnings and before exceeded limits and failures."""
        told = game_summaries(audit)
        return {
            "verdicts": [
                # What an adversary sees is said once, however many games it has.
                _verdict(scene, scene.adversary in {before.adversary for before in told[:position]})
                for position, scene in enumerate(told)
            ],
            "exceeded": [*summary.over_limit(audit), *over_budget(audit)],
            "failures": summary.failed(audit),
        }

    def show(self, audit: Audit, console: Console) -> None:
        """A few lines for every adversary and game, then one table."""
        for line in audit.warnings:
            console.print()
            console.print(Text(f"Warning: {printable(line)}", style="bold yellow"))
        introduced: set[str] = set()
        for scene in game_summaries(audit):
            console.print()
            _story(scene, console, first=scene.adversary not in introduced)
            introduced.add(scene.adversary)
            console.print()
            _table(scene, console)
            console.print(Text(_note(scene), style="dim"))
        for line in summary.failed(audit):
            console.print(Text(f"Failed: {printable(line)}", style="yellow"))


def _verdict(scene: GameSummary, introduced: bool) -> Mapping[str, Any]:
    best = scene.undefended.strongest(scene.metric) if scene.undefended else None
    held, control = sentences.control_held(scene)
    return {
        "scene": scene,
        "introduced": introduced,
        "best": best,
        "leaks": scene.undefended.leaks(scene.metric) if scene.undefended else False,
        "exact": sentences.exact(scene),
        "not_run": sentences.not_run(scene),
        "big": sentences.big(best) if best else "",
        "found": sentences.found(scene) if scene.undefended else "",
        "control_held": held,
        "control": control,
        "helped": [(run, sentences.helped(scene, run)) for run in scene.defended],
    }


def _story(scene: GameSummary, console: Console, *, first: bool) -> None:
    threat = scene.threat
    who = f"{scene.adversary}: {threat.summary}" if threat else scene.adversary
    _point(console, "Adversary", who if first else f"{scene.adversary}, as above")
    if threat is not None and first:
        _point(console, "It sees", "; ".join(threat.sees) or "nothing")
        if threat.capabilities:
            _point(console, "It can", "; ".join(threat.capabilities))
    _point(console, "Question", scene.question)
    if scene.undefended is not None:
        style = {True: "bold red", False: "bold", None: "bold yellow"}[scene.undefended.leaks(scene.metric)]
        _point(console, "Result", sentences.found(scene), style)
        if exact := sentences.exact(scene):
            _point(console, "", exact)
        if missing := sentences.not_run(scene):
            _point(console, "", missing, "yellow")
        if scene.undefended.utility is not None and first:
            _point(console, "Utility", summary.compared(scene.undefended.utility))
    held, words = sentences.control_held(scene)
    _point(console, "Control", words, "" if held else "yellow")
    for run in scene.defended:
        _point(console, "Defence", f"{run.label}: {sentences.helped(scene, run)}")


def _point(console: Console, name: str, text: str, style: str = "") -> None:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=11, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(name, style="bold"), Text(printable(text), style=style))
    console.print(grid)


def _table(scene: GameSummary, console: Console) -> None:
    """One table in strips: a line per run with its utility, then its attacks under the same columns."""
    level = next((score.level for run in scene.runs for score in run.scores), 0.95)
    name = scene.metric_info(scene.metric).short
    first = max(20, *(len(attack) + 11 for attack in scene.attacks))
    beside = sentences.columns(scene)
    title = f"{name} [{level:.0%} interval]"
    head = _strip(first, len(title), beside)
    titles = ("", title, *(shown.narrow for shown in beside))
    head.add_row(*(Text(title, style="bold") for title in titles))
    console.print(head)
    for run in scene.runs:
        line = Table.grid(padding=(0, 2), expand=False)
        # Utility belongs to the run, not to an attack on it, so it is shown once, on the run's own line.
        line.add_row(Text(run.label, style="bold"), Text(_utility(run.utility)))
        console.print(line)
        strip = _strip(first, len(title), beside)
        for attack in scene.attacks:
            for score in run.rows(attack, scene.metric):
                strip.add_row(*_row(run, score, beside))
        console.print(strip)


def _strip(first: int, second: int, beside: Sequence[Column]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=first, overflow="fold")
    table.add_column(width=max(23, second), no_wrap=True)
    for shown in beside:
        table.add_column(width=max(6, len(shown.narrow)), justify="right", no_wrap=True)
    return table


def _row(run: RunSummary, score: Score, beside: Sequence[Column]) -> tuple[Text, ...]:
    style = {"leak": "red", "quiet": "", "open": "yellow"}[summary.verdict_kind(score)]
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


def _note(scene: GameSummary) -> str:
    asked = max((score.n for run in scene.runs for score in run.scores), default=0)
    legend = f"{scene.info.legend} " if scene.info and scene.info.legend else ""
    return (
        f"n={asked} questions per run. {legend}Chance is the same score with identities permuted. An attack "
        "that finds nothing does not prove that there is no leak."
    )
