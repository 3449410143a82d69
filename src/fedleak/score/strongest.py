"""What scores show: whether an attack leaks, which attack is the strongest, and the interval of the one picked."""

from __future__ import annotations

from collections.abc import Iterable

from fedleak.results.audit import Score

__all__ = ["leaks", "any_leaks", "strongest", "interval_of"]


def leaks(score: Score) -> bool | None:
    """Whether an attack has shown a leak; None: no verdict, because too few users are asked about.

    A score without a test, which nothing but its interval describes, leaks if all of it is above chance (below chance,
    for a distance).
    """
    tested = score.p is not None or score.advantage is not None
    if score.leaks is not None or tested:
        return score.leaks
    return score.high < score.chance if score.distance else score.low > score.chance


def any_leaks(scores: Iterable[Score]) -> bool | None:
    """Whether any attack has shown a leak; None if none has, but for some there is no verdict."""
    found = [leaks(score) for score in scores]
    return True if True in found else None if None in found else False


def strongest(scores: Iterable[Score]) -> Score | None:
    """The attack with the highest score (the lowest, for a distance).

    Not the one with the highest lower end: where every attack scores less than before, the score of that one can rise.
    """
    return max(scores, key=lambda s: (-s.value, -s.high) if s.distance else (s.value, s.low), default=None)


def interval_of(score: Score) -> tuple[float, float]:
    """The interval that holds for all attacks on the question at once, so also for the one picked as the strongest."""
    if score.all_low is None or score.all_high is None:
        return score.low, score.high
    return score.all_low, score.all_high
