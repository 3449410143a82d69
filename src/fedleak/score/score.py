"""Score the claims of one attack over all seeds of one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.core import FloatArray, IntArray, derive, number
from fedleak.errors import AttackError
from fedleak.score.interval import by_user
from fedleak.score.tally import Tally, average_precision, top

__all__ = ["Played", "Measured", "check", "measure", "verdict"]

_TALLIES: Mapping[str, Callable[[FloatArray, IntArray], Tally]] = {
    "ap": average_precision,
    "top1": lambda claims, right: top(claims, right, 1),
    "top5": lambda claims, right: top(claims, right, 5),
}


@dataclass(frozen=True, slots=True)
class Played:
    """One attack's claims on one trained federation, with the right answers."""

    seed: int
    claims: FloatArray  # (questions, options)
    right: IntArray
    options: tuple[str, ...]
    game: str = "identify"
    who: IntArray | None = None  # whom each question is about: index into `people`; (questions, 2) for pairs
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric with its interval and its chance level."""

    value: float
    low: float
    high: float
    chance: float
    chance_high: float
    n: int
    users: int
    options: int


def check(claims: FloatArray, questions: int, options: int, attack: str) -> None:
    """Refuse claims that do not answer every question with a finite score."""
    if claims.shape != (questions, options):
        raise AttackError(
            f"attack '{attack}' answered with an array of shape {claims.shape}; "
            f"{questions} questions and {options} options were asked"
        )
    if not np.isfinite(claims).all():
        raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} scores that are not finite")


def measure(played: Sequence[Played], metric: str, *, level: float, permutations: int) -> Measured:
    """Pool the seeds by user: a person who took part in several runs is still one person to resample."""
    tallies = [_TALLIES[metric](one.claims, one.right) for one in played]
    totals: dict[str, list[float]] = {}
    for one, tally in zip(played, tallies, strict=True):
        for user, value, weight in zip(one.options, tally.per_user, tally.weights, strict=True):
            total = totals.setdefault(user, [0.0, 0.0])
            total[0] += weight * value
            total[1] += weight
    sums = np.asarray(list(totals.values()))
    weights = sums[:, 1]
    values = sums[:, 0] / np.where(weights > 0, weights, 1)
    interval = by_user(values, weights, level, derive(played[0].seed, "interval", metric))
    null = np.mean(
        [t.null(permutations, derive(one.seed, "null", metric)) for one, t in zip(played, tallies, strict=True)], axis=0
    )
    # Under permuted identities a perfect attack is always wrong; guessing blindly is right once in a while.
    blind = float(np.mean([tally.blind for tally in tallies]))
    return Measured(
        value=float(np.average(values, weights=weights)),
        low=interval.low,
        high=interval.high,
        chance=max(blind, float(null.mean())),
        chance_high=max(blind, float(np.quantile(null, 0.975))),
        n=sum(len(one.right) for one in played),
        users=int((weights > 0).sum()),
        options=max(len(one.options) for one in played),
    )


def verdict(measured: Measured) -> str:
    """What was shown; an attack that found nothing has not shown that nothing is there."""
    m = measured
    if m.low > m.chance:
        return f"leaks: {number(m.value)} [{number(m.low)}, {number(m.high)}], chance {number(m.chance)}"
    return f"no leak shown by this attack (n={m.n})"
