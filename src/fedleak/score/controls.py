"""Check the controls of an audit: whether the set-up alone moves scores above or below chance.

A control is a run in which there is nothing to find. A score that differs from chance there, in either direction, is an
artefact of the set-up, and every verdict of the audit is in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from fedleak.core import format_interval, format_value
from fedleak.lazy import stats
from fedleak.population.finding import UNBALANCED
from fedleak.results.audit import Finding, Score

__all__ = ["POWER", "departure", "detectable", "null_scores", "warnings"]

_LEVEL = 0.05  # false positive rate of a sound set-up; chance_low and chance_high are the ends of the middle 95%
POWER = 0.8  # share of cases in which a control shows the smallest score that it is said to detect


def departure(score: Score, tests: int = 1) -> Literal["above", "below"] | None:
    """The direction in which a control's score differs from chance, if it does, as one of `tests` tests.

    Both must agree: the interval, which resamples users, and the permutation of identities, corrected for the number
    of tests (Bonferroni; the tail of the permutations is taken for a normal one). Either alone has a higher error rate
    than its level where users are few, because averages over ranks are skewed.

    With rotated owners or swapped secrets an attack that names everybody correctly is always wrong, so scores below
    chance are expected.
    """
    limit = _correction(tests)
    if score.low > score.chance and score.value - score.chance > limit * (score.chance_high - score.chance):
        return "above"
    if score.control in ("rotated-owners", "swapped-secrets"):
        return None
    lowest = score.chance if score.chance_low is None else score.chance_low
    if score.high < score.chance and score.chance - score.value > limit * (score.chance - lowest):
        return "below"
    return None


def _correction(tests: int) -> float:
    return float(stats.norm.isf(_LEVEL / 2 / max(1, tests))) / float(stats.norm.isf(_LEVEL / 2))


def detectable(score: Score, tests: int = 1) -> float | None:
    """The smallest true score above chance that this control would have shown (`departure`) in POWER of all cases.

    None where it would not have shown even the highest score, and for distances. The score is taken for normal around
    its true value, with a standard deviation that follows from its interval and grows with the score as that of a
    share does. It is at most that of one independent yes or no per user, which also stands in where the control's
    interval has no width.
    """
    if score.distance:
        return None
    inside = float(stats.norm.isf((1 - score.level) / 2))
    values = np.linspace(score.chance, 1, 2001)
    share = np.sqrt(values * (1 - values))
    spread = share / np.sqrt(max(1, score.clients or score.users))
    own, at = (score.high - score.low) / 2 / inside, np.sqrt(max(0.0, score.value * (1 - score.value)))
    if own > 0 and at > 0:
        spread = np.minimum(spread, own * share / at)
    shown = (values - inside * spread > score.chance) & (
        values - score.chance > _correction(tests) * (score.chance_high - score.chance)
    )
    if not shown.any():
        return None
    critical = values[shown.argmax()]
    # Resampling n users understates the spread by a factor of n / (n - 1) in the variance.
    few = max(2, score.clients or score.users)
    above = float(stats.t.ppf(POWER, few - 1)) * np.sqrt(few / (few - 1))
    enough = values - above * spread >= critical
    return float(values[enough.argmax()]) if enough.any() else None


def null_scores(scores: Sequence[Score], controls: Mapping[str, Sequence[str]]) -> list[Score]:
    """The headline scores of the controls in `controls`, under which the game has nothing to find."""
    return [
        score
        for score in scores
        if score.headline
        and score.control is not None
        and score.control in controls.get(score.game, [score.control])
        and not (score.leaks is None and score.p is not None)  # too few users for a verdict, and so for a warning
    ]


def warnings(scores: Sequence[Score], controls: Mapping[str, Sequence[str]], findings: Sequence[Finding]) -> list[str]:
    """Warnings to show before any verdict: a failed control, a split that is known to mislead, a bad imitation."""
    misleading = (("split", "stratified"), ("imitation", "warn"))
    told = [f.text for f in findings if (f.kind, f.action) in misleading]
    told += [UNBALANCED for f in findings if f.kind == "split" and UNBALANCED in f.text]
    nulls = null_scores(scores, controls)
    for adversary, game in dict.fromkeys((score.adversary, score.game) for score in nulls):
        here = [score for score in nulls if (score.adversary, score.game) == (adversary, game)]
        for direction in ("above", "below"):
            off = [score for score in here if departure(score, len(here)) == direction]
            if not off:
                continue
            names = ", ".join(
                f"{score.attack} {format_interval(score.value, score.low, score.high)}, chance "
                f"{format_value(score.chance)} ({score.control} control)"
                for score in off
            )
            means = (
                "Part of what the attacks find may come from the set-up and not from the users."
                if direction == "above"
                else "The set-up lowers scores, so a leak may be larger than it seems, or missed."
            )
            told.append(
                f"The control failed ({adversary}, {game}): where there is nothing to find, {len(off)} of {len(here)} "
                f"scores are {direction} chance: {names}. {means} A sound set-up fails this check in up "
                "to 1 of 20 audits: repeat it with other seeds. If it fails again, do not rely on the verdicts below."
            )
    return told
