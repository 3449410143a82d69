"""A game's scores as a sentence, one large number, and the columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fedleak.report.formatting import format_value, percent, times
from fedleak.report.summary import GameSummary, RunSummary, leaks
from fedleak.results.audit import MetricInfo, Score

__all__ = ["Column", "found", "big", "columns"]

_NOT_SHOWN = " No attack was shown to beat guessing."


def found(scene: GameSummary) -> str:
    """One sentence on what the strongest attack on the undefended run found."""
    best = scene.undefended.strongest(scene.metric) if scene.undefended else None
    if best is None:
        return "No attack was scored on this run."
    told = best.in_words or (
        f"The strongest attack, {best.attack}, reaches {scene.measure} {format_value(best.value)}; chance is "
        f"{format_value(best.chance)}."
    )
    return told if leaks(best) else told + _NOT_SHOWN


def big(best: Score) -> str:
    """The number to print large: the one in the sentence beside it."""
    return best.number or format_value(best.value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table of scores, after the score itself."""

    title: str
    narrow: str  # the same for narrow tables
    cell: Callable[[RunSummary, Score], str]


def columns(scene: GameSummary) -> list[Column]:
    """The columns beside the headline metric of a game: its chance level, and metrics that help to interpret it."""
    shown = [Column("chance", "chance", lambda run, score: format_value(score.chance))]
    worth = scene.info is None or scene.info.multiples
    if worth and any(times(score) != "-" for run in scene.runs for score in run.of(scene.metric)):
        shown.append(Column("times chance", "times", lambda run, score: times(score)))
    others = dict.fromkeys(score.metric for run in scene.runs for score in run.scores if score.metric != scene.metric)
    known = [scene.metric_info(metric) for metric in others]
    return shown + [Column(one.short, one.column, partial(_beside, one)) for one in known if one.column]


def _beside(metric: MetricInfo, run: RunSummary, score: Score) -> str:
    other = run.beside(score, metric.name)
    if other is None:
        return ""
    return percent(other.value) if metric.percent else format_value(other.value)
