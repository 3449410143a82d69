"""Score the predictions of one attack over all seeds of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fedleak.core import advantage, counted, format_interval, format_value, in_unit
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Game
from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.metrics.metric import Metric
from fedleak.results.audit import Score
from fedleak.score.decision import Decision, decide

__all__ = [
    "AttackResult",
    "Measured",
    "decide",
    "metric_of",
    "measure",
    "measure_all",
    "unmeasured",
    "scores_of",
    "verdict",
]


def metric_of(game: Game | type[Game], name: str) -> Metric:
    """The metric of a game that has this name."""
    known = {metric.name: metric for metric in game.metrics}
    if name not in known:
        raise AttackError(f"game '{game.name}' has no metric '{name}'{did_you_mean(name, known)}")
    return known[name]


def measure(played: Sequence[AttackResult], metric: Metric, *, level: float, permutations: int) -> Measured:
    """One metric of an attack's results, with an interval (users resampled) and a chance level (users permuted)."""
    return metric.measure(played, level=level, permutations=permutations)


def measure_all(played: Sequence[AttackResult], game: Game, *, level: float, permutations: int) -> dict[str, Measured]:
    """Every metric of a game that is defined for these results, by name."""
    return {
        metric.name: measure(played, metric, level=level, permutations=permutations)
        for metric in game.metrics
        if metric.applies(played) is True
    }


def unmeasured(played: Sequence[AttackResult], game: Game) -> dict[str, str]:
    """The metrics of a game that these results do not suffice for, by title, and why."""
    reasons = ((metric.title, metric.applies(played)) for metric in game.metrics)
    return {title: why for title, why in reasons if isinstance(why, str)}


def verdict(measured: Measured, decision: Decision, unit: str = "user") -> str:
    """The verdict in words; an attack that finds nothing does not prove that there is no leak.

    `unit` is what is asked for: a user, or a client with all users behind it.
    """
    m = measured
    if decision.leaks is None and m.clients is not None:
        return (
            f"no verdict: {counted(m.users, 'user')} of {counted(m.clients, 'client')}, "
            f"too few clients (at least {m.least})"
        )
    if decision.leaks is None:
        return f"no verdict: {counted(m.users, unit)} {'is' if m.users == 1 else 'are'} too few (at least {m.least})"
    if not decision.leaks:
        return f"no leak shown by this attack (n={m.n})"
    p = f"p = {decision.p:.3f}" if decision.p >= 0.001 else "p < 0.001"
    return f"leaks: {format_interval(m.value, m.low, m.high)}, chance {format_value(m.chance)}, {p}"


def scores_of(
    measured: Mapping[str, Measured],
    game: Game,
    level: float,
    seeds: Sequence[int],
    tried: Sequence[Mapping[str, Measured]] = (),
    /,
    **labels: Any,
) -> dict[str, Score]:
    """The measured metrics of a game as scores, with verdicts, and the headline in words.

    `tried` are all attacks on the question, this one included; verdicts are corrected for their number. `labels` are
    the other fields of a score: attack, adversary, defence, control, utility.
    """
    # The headline metric is the first; where the results do not suffice for it, the next one takes its place.
    first = next(iter(measured))
    found = {}
    for name, one in measured.items():
        metric = metric_of(game, name)
        others = [other[name] for other in tried if name in other]
        decision = decide(one, level=level, tried=others, lower_leaks=metric.lower_leaks)
        found[name] = _score(one, decision, metric, name == first, level, seeds, labels)
    told = game.headline(found)
    if told is not None:
        sentence = in_unit(told.sentence, labels.get("unit", "user"))
        found[first] = msgspec.structs.replace(found[first], number=told.number, in_words=sentence)
    return found


def _score(
    found: Measured,
    decision: Decision,
    metric: Metric,
    headline: bool,
    level: float,
    seeds: Sequence[int],
    labels: Mapping[str, Any],
) -> Score:
    return Score(
        **labels,
        metric=metric.name,
        value=found.value,
        low=found.low,
        high=found.high,
        level=level,
        chance=found.chance,
        chance_high=found.chance_high,
        chance_low=found.chance_low,
        multiple=found.value / found.chance if found.chance > 0 else None,
        n=found.n,
        users=found.users,
        clients=found.clients,
        options=found.options,
        seeds=list(seeds),
        verdict=verdict(found, decision, labels.get("unit", "user")),
        headline=headline,
        leaks=decision.leaks,
        p=decision.p,
        all_low=decision.everywhere.low,
        all_high=decision.everywhere.high,
        advantage=advantage(found.value, found.chance, lower_leaks=metric.lower_leaks),
        by_seed=list(found.by_seed),
        distance=metric.lower_leaks,
    )
