"""Score the claims of one attack over all seeds of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from fedleak.core import format_interval, format_value
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.link import GAPS
from fedleak.score import binary, identification, linking, reconstruction, records, traits
from fedleak.score.attack_result import AttackResult, Measured
from fedleak.score.result import Score

__all__ = ["AttackResult", "Measured", "measure", "applies", "as_score", "verdict"]


class Metric(Protocol):
    """Measures what was played of one game, over all seeds."""

    def __call__(self, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
        """The metric, its interval and its chance level."""
        ...


_PAIRS: Mapping[str, Metric] = {"ap": binary.average_precision, "auc": binary.auc}
_METRICS: Mapping[str, Mapping[str, Metric]] = {
    "identify": {
        "ap": identification.average_precision,
        "top1": partial(identification.top, 1),
        "top5": partial(identification.top, 5),
        "unseen": identification.unseen,
    },
    "match": _PAIRS,
    "link": {
        **{f"gap{gap}": partial(linking.found_again, gap) for gap in GAPS},
        "matched": linking.matched,
        "auc": binary.auc,
    },
    "cross-modal": _PAIRS,
    "profile": {
        "ap": binary.average_precision,
        "p5": partial(binary.precision_at, 5),
        "p10": partial(binary.precision_at, 10),
    },
    "attribute": {"top1": traits.top1, "ap": traits.average_precision},
    "extract": {
        **{f"top{k}": partial(records.top, k) for k in records.PLACES},
        **{f"distance{k}": partial(records.distance, k) for k in records.PLACES},
        "extracted": records.extracted,
        "attributed": records.attributed,
    },
    "reconstruct": {
        "nearest": reconstruction.nearest,
        "specific": reconstruction.specific,
        "property": reconstruction.of_property,
    },
}


def measure(played: Sequence[AttackResult], metric: str, *, level: float, permutations: int) -> Measured:
    """One metric of what was played, with an interval that resamples users and a chance level that permutes them."""
    game = played[0].game
    if game not in _METRICS:
        raise AttackError(f"game '{game}' has no metrics{did_you_mean(game, _METRICS)}")
    known = _METRICS[game]
    if metric not in known:
        raise AttackError(f"game '{game}' has no metric '{metric}'{did_you_mean(metric, known)}")
    return known[metric](played, level=level, permutations=permutations)


def applies(played: Sequence[AttackResult], metric: str) -> bool:
    """Whether a metric of the game has a meaning as it was played.

    `unseen` has none in a closed world, where no secret was found there is none to attribute, and a short run has no
    rounds that lie far apart.
    """
    if played[0].game == "link":
        return linking.asked(played, metric)
    if metric == "attributed":
        return records.any_found(played)
    if metric == "property":
        return reconstruction.has_property(played)
    return metric != "unseen" or all(identification.open_world(one) for one in played)


def verdict(measured: Measured, *, distance: bool = False) -> str:
    """What was shown; an attack that found nothing has not shown that nothing is there.

    A `distance` shows a leak where it is smaller than chance.
    """
    m = measured
    if m.high < m.chance if distance else m.low > m.chance:
        return f"leaks: {format_interval(m.value, m.low, m.high)}, chance {format_value(m.chance)}"
    return f"no leak shown by this attack (n={m.n})"


def as_score(found: Measured, game: Any, metric: str, level: float, seeds: Sequence[int], /, **labels: Any) -> Score:
    """A measured metric of a game as a score, with its verdict; `labels` says of what."""
    distance = metric in game.distances
    return Score(
        **labels,
        metric=metric,
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
        options=found.options,
        seeds=list(seeds),
        verdict=verdict(found, distance=distance),
        headline=metric == game.metrics[0],
        distance=distance,
    )
