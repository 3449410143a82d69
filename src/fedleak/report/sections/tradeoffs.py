"""Trade-offs: all runs compared, and the cost of each defence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedleak.report import analysis_figures, figures, formatting, sentences, tradeoff
from fedleak.report.formatting import printable
from fedleak.report.section import Section
from fedleak.report.summary import GameSummary, game_summaries
from fedleak.results.audit import Audit, Score
from fedleak.results.defence_results import Tradeoff

__all__ = ["Tradeoffs"]


class Tradeoffs(Section):
    """Trade-off of privacy and utility."""

    name: ClassVar[str] = "helps"
    link: ClassVar[str] = "Trade-offs"
    title: ClassVar[str] = "What defences change, and what they cost"

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """For every adversary and game: the strongest attack on each run, costs, figures, and every verdict."""
        scenes = [_scene(scene, f"s{place}", audit) for place, scene in enumerate(game_summaries(audit))]
        return {"scenes": scenes, "price_columns": tradeoff.COLUMNS, "price_notes": tradeoff.NOTES}

    def show(self, audit: Audit, console: Console) -> None:
        """Leakage and cost of each defence, and the recommended one."""
        for weighed in audit.tradeoffs:
            console.print()
            _prices(weighed, console, alone=len(audit.tradeoffs) == 1)


def _scene(scene: GameSummary, name: str, audit: Audit) -> Mapping[str, Any]:
    weighed = next((t for t in audit.tradeoffs if (t.adversary, t.game) == (scene.adversary, scene.game)), None)
    own = [one for one in audit.figures if (one.adversary, one.game) == (scene.adversary, scene.game)]
    return {
        "scene": scene,
        "columns": sentences.columns(scene),
        "weighed": weighed,
        "trade_off": analysis_figures.draw_figure(f"{name}-trade", tradeoff.figure(weighed, scene.measure))
        if weighed
        else None,
        "prices": tradeoff.rows(weighed) if weighed else [],
        "meanings": [
            (name, setting, text)
            for name, known in audit.settings.items()
            for setting, text in known.items()
            if any(_has(run.scores, name, setting) for run in scene.defended)
        ],
        "unclear": weighed is not None and tradeoff.unclear(weighed),
        "by_seed": any(formatting.by_seed(score) for run in scene.runs for score in run.of(scene.metric)),
        "figures": [
            (analysis_figures.draw_figure(f"{name}-f{i}", one.figure), one.caption) for i, one in enumerate(own)
        ],
        "comparison": figures.comparison(f"{name}-compare", scene),
    }


def _has(scores: Iterable[Score], name: str, setting: str) -> bool:
    """Whether the label of a defence shows this setting."""
    used = [one for score in scores if score.defence for one in (score.defence, *score.defence.get("also", []))]
    return any(one.get("name") == name and one.get(setting) is not None for one in used)


def _prices(weighed: Tradeoff, console: Console, *, alone: bool) -> None:
    against = "" if alone else f" ({weighed.adversary}, {weighed.game})"
    console.print(Text(f"What each defence costs{against}", style="bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    lines = tradeoff.rows(weighed)
    for place, title in enumerate(tradeoff.COLUMNS):
        if place == 1 or not any(line[place] for line in lines):  # the attack is in the table above
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
    console.print(Text(tradeoff.note(weighed), style="dim"))
    console.print(Text(printable(weighed.advice), style="bold"))
