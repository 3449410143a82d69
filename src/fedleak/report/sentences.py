"""A game's scores as sentences, one large number, and the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fedleak.report.formatting import by_seed, format_value, percent, times
from fedleak.report.summary import GameSummary, RunSummary, changed, leaks, too_few, verdict
from fedleak.results.audit import MetricInfo, Score
from fedleak.score.controls import POWER, departure, detectable

__all__ = ["Column", "found", "exact", "seeds", "not_run", "control_held", "helped", "big", "columns"]


def found(scene: GameSummary) -> str:
    """One sentence on what the strongest attack on the undefended run found, and whether it shows a leak."""
    run = scene.undefended
    best = run.strongest(scene.metric) if run else None
    if run is None or best is None:
        return "No attack was scored on this run."
    told = best.in_words or (
        f"The strongest attack, {best.attack}, reaches {scene.measure} {format_value(best.value)}; chance is "
        f"{format_value(best.chance)}."
    )
    if leaks(best):
        return told
    match run.leaks(scene.metric):
        case None:
            return f"{told} No verdict: {too_few(best)}."
        case False:
            return f"{told} No attack was shown to beat guessing."
    return f"{told} {_leaking(run, scene.metric)} was shown to beat guessing."


def _leaking(run: RunSummary, metric: str) -> str:
    """The attacks that were shown to leak, where the strongest is not one of them."""
    return " and ".join(dict.fromkeys(score.attack for score in run.of(metric) if leaks(score)))


def exact(scene: GameSummary) -> str:
    """The verdict on the strongest attack in numbers, how it was picked, and what the interval leaves out."""
    run = scene.undefended
    best = run.strongest(scene.metric) if run else None
    if run is None or best is None:
        return ""
    many = len(run.of(scene.metric))
    parts = [f"{best.attack}, {scene.measure}: {verdict(best, picked=True)}."]
    if many > 1:
        holds = (
            f"its interval holds for all {many} at once"
            if best.all_low is not None
            else "its interval does not account for that"
        )
        parts.append(f"Picked as the strongest of {many} attacks; {holds}.")
    return " ".join(filter(None, [*parts, seeds(best), _other_number(scene, best)]))


def _other_number(scene: GameSummary, best: Score) -> str:
    """Why the verdict's number and chance are others than those of the sentence for everybody."""
    if not best.number or best.number in (percent(best.value), format_value(best.value)):
        return ""
    name = scene.metric_info(scene.metric).short
    return (
        f"The verdict is about {name}, which is not the {best.number} above: its chance level is the same {name} with "
        "the identities permuted."
    )


def seeds(score: Score) -> str:
    """What the interval has of the variation between training runs."""
    if len(score.seeds) == 1:
        return "One seed: variation between training runs is not in the intervals."
    each = by_seed(score)
    return f"By seed: {each}." if each else ""


def not_run(scene: GameSummary) -> str:
    """That the strongest attack is missing, next to the verdict that it might change."""
    if scene.not_run is None:
        return ""
    return f"{scene.not_run}, the strongest attack on this question, was not run; it may find more."


def control_held(scene: GameSummary) -> tuple[bool | None, str]:
    """Whether the control held (None: it cannot be said), and what that means.

    A control that shows nothing is quoted with its power: it never proves that scores elsewhere have no artefact.
    """
    scores = [score for run in scene.controls for score in run.of(scene.metric)]
    if not scores:
        return None, (
            "No control was run, so this audit cannot separate leakage from users' data from artefacts of the set-up."
        )
    if any(leaks(score) is None for score in scores):
        return None, f"The control gives no verdict: {too_few(scores[0])}."
    off = [(score, direction) for score in scores if (direction := departure(score, len(scores)))]
    kinds = {run.control for run in scene.controls}
    where = "where no data is user-specific" if kinds == {"iid"} else "where there is nothing to find"
    if not off:
        many = "the score is not" if len(scores) == 1 else f"none of the {len(scores)} scores is"
        return True, (
            f"The control shows no departure from chance: {where}, {many} shown to differ from it. "
            f"{_power(scene, scores)}"
        )
    names = ", ".join(
        f"{score.attack} ({format_value(score.value)}, {direction} chance {format_value(score.chance)})"
        for score, direction in off
    )
    return False, (
        f"The control failed: {where}, {len(off)} of {len(scores)} scores differ from chance: {names}. If other seeds "
        "show it too, the set-up moves the scores, and no verdict here is reliable."
    )


def _power(scene: GameSummary, scores: Sequence[Score]) -> str:
    """The smallest score that every one of the controls would have shown."""
    least = [detectable(score, len(scores)) for score in scores]
    known = [value for value in least if value is not None]
    if len(known) < len(least):
        return "It has too little power to show an artefact of any size reliably."
    short = scene.metric_info(scene.metric).short
    article = "an" if short[:1] in "AEIO" else "a"
    return (
        f"It would have shown {article} {short} of {format_value(max(known))} or more in about {POWER:.0%} of cases. "
        "It cannot exclude smaller artefacts."
    )


def helped(scene: GameSummary, run: RunSummary) -> str:
    """One sentence on how a defence changes the strongest attack, and its cost in utility."""
    after = run.strongest(scene.metric)
    if after is None:
        return "No attack was scored under this defence."
    baseline = scene.undefended.strongest(scene.metric) if scene.undefended else None
    before = f" instead of {format_value(baseline.value)}" if baseline else ""
    knowing = ", defence-aware" if after.adaptive else ""
    sentence = (
        f"the strongest attack ({after.attack}{knowing}) reaches {scene.measure} {format_value(after.value)}{before}"
    )
    match run.leaks(scene.metric):
        case None:
            sentence += f", with no verdict: {too_few(after)}"
        case False:
            sentence += f", and no attack was shown to beat chance ({format_value(after.chance)})"
        case True if leaks(after):
            sentence += (
                f", still above chance ({format_value(after.chance)})" if after.chance else ", still above chance"
            )
        case _:
            sentence += f", and {_leaking(run, scene.metric)} still beats chance"
    cost = changed(run.utility)
    return f"{sentence}; {cost}." if cost else f"{sentence}."


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
