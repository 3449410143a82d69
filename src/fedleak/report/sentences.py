"""What a game's scores say, in a sentence, in one large number and in the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from fedleak.report.formatting import format_value, percent, times
from fedleak.report.metrics import kind_of, metric_name, short_name
from fedleak.report.summary import GameSummary, RunSummary, leaks
from fedleak.score.result import Score

__all__ = ["Column", "found", "big", "columns"]


def found(run: RunSummary, metric: str) -> str:
    """One sentence on what the strongest attack found, for someone who has never seen such a number."""
    best = run.strongest(metric)
    if best is None:
        return "No attack was scored on this run."
    beside, sentence = _TOLD.get(kind_of(best.game), ("", None))
    shown = run.beside(best, beside)
    if shown is None or sentence is None:
        name = metric_name(metric, best.game)
        return (
            f"The strongest attack, {best.attack}, reaches {name} {format_value(best.value)}; guessing would manage "
            f"{format_value(best.chance)}.{_NOT_SHOWN if not leaks(best) else ''}"
        )
    stranger = run.beside(best, "unseen")
    more = (
        f" Updates of users it has never seen are told from the others with average precision "
        f"{format_value(stranger.value)}; guessing would manage {format_value(stranger.chance)}."
        if stranger
        else ""
    )
    return f"{sentence(shown, stranger is not None)}.{more}{_NOT_SHOWN if not leaks(best) else ''}"


_SHOWN = (
    "top1",
    "auc",
    "p10",
    "unseen",
    "ap",
    "extracted",
    "attributed",
    "distance1",
    "gap20",
    "matched",
    "specific",
    "property",
)  # beside the headline metric; the others are in results.json
_NARROW = {"extracted": "named", "attributed": "whose", "distance1": "edits"}
_NOT_SHOWN = " No attack was shown to beat guessing."


def _named(top: Score, strangers: bool) -> str:
    users = "users whom the attacker has seen before" if strangers else "users"
    return (
        f"Out of {top.options} {users}, an update's sender is named correctly in {percent(top.value)} of cases; "
        f"guessing would manage {percent(top.chance)}"
    )


def _matched(auc: Score, _: bool) -> str:
    return (
        "Given two updates of one user and two of different users, the attack tells which is which in "
        f"{percent(auc.value)} of cases; guessing would manage {percent(auc.chance)}"
    )


def _described(auc: Score, _: bool) -> str:
    return (
        "Given an update with a text about its sender and one with a text about somebody else, the attack tells which "
        f"is which in {percent(auc.value)} of cases; guessing would manage {percent(auc.chance)}"
    )


def _fitted(best: Score, _: bool) -> str:
    return (
        f"Of the 10 users whose updates fit the profile best, {percent(best.value)} do fit it; guessing would find "
        f"{percent(best.chance)}"
    )


def _grouped(right: Score, _: bool) -> str:
    return (
        f"Out of {right.options} groups, the one that an update's sender belongs to is named correctly in "
        f"{percent(right.value)} of cases; guessing would manage {percent(right.chance)}"
    )


def _extracted(first: Score, _: bool) -> str:
    many = f"{first.options:,}" if first.options < 10**12 else f"more than 10^{len(str(first.options)) - 2}"
    return (
        f"The first record that the attack names for a client is its owner's secret in {percent(first.value)} of "
        f"cases, out of {many} records that it could be; with the clients mixed up it would be in "
        f"{percent(first.chance)}"
    )


def _found_again(again: Score, _: bool) -> str:
    return (
        f"Out of all updates of the next round, the one that the same client sent is picked in {percent(again.value)} "
        f"of cases; guessing would manage {percent(again.chance)}"
    )


def _drawn(share: Score, _: bool) -> str:
    return (
        f"Of the images that the attack draws for a client, {percent(share.value)} are nearest to an image of that "
        f"client, out of {share.options} clients; drawn for another client it would be {percent(share.chance)}"
    )


# Game -> the metric that is easiest to grasp, and the sentence that says it.
_TOLD: Mapping[str, tuple[str, Callable[[Score, bool], str] | None]] = {
    "identify": ("top1", _named),
    "match": ("auc", _matched),
    "cross-modal": ("auc", _described),
    "profile": ("p10", _fitted),
    "attribute": ("top1", _grouped),
    "extract": ("top1", _extracted),
    "reconstruct": ("nearest", _drawn),
    "link": ("gap1", _found_again),
}


def big(run: RunSummary, best: Score) -> str:
    """The one number to print large: that of the sentence beside it."""
    shown = run.beside(best, _TOLD.get(kind_of(best.game), ("", None))[0])
    return percent(shown.value) if shown else format_value(best.value)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table of scores, after the score itself."""

    title: str
    narrow: str  # the same where there is little room
    cell: Callable[[RunSummary, Score], str]


def columns(scene: GameSummary) -> list[Column]:
    """What stands beside the headline metric of a game: its chance level, and what else helps to grasp it."""
    shown = [Column("chance", "chance", lambda run, score: format_value(score.chance))]
    # How many times one in a billion says nothing, and there is much else to say about records.
    worth = kind_of(scene.game) != "extract"
    if worth and any(times(score) != "-" for run in scene.runs for score in run.of(scene.metric)):
        shown.append(Column("times chance", "times", lambda run, score: times(score)))
    others = dict.fromkeys(score.metric for run in scene.runs for score in run.scores if score.metric != scene.metric)
    for metric in others:
        if metric in _SHOWN:
            title = short_name(metric, scene.game)
            shown.append(Column(title, _NARROW.get(metric, title), partial(_beside, metric)))
    return shown


def _beside(metric: str, run: RunSummary, score: Score) -> str:
    other = run.beside(score, metric)
    if other is None:
        return ""
    return percent(other.value) if metric in ("top1", "p10") else format_value(other.value)
