"""What an attack does to single users: the tail, the share above a threshold, and the worst-off user."""

from __future__ import annotations

import msgspec

__all__ = ["UserTail"]


class UserTail(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of users under one attack on one run, over all seeds; no user is named."""

    score: str  # what the score of a user is
    above: str  # completes "62% of users ..."
    threshold: float  # a user is above it, or not
    users: int
    level: float  # of the intervals
    mean: float  # over users, all with the same weight
    mean_chance: float  # mean of the same over permutations of identities; so are the other chance levels
    quantile: float  # which part of the users is below the tail, for instance 0.9
    tail: float
    tail_low: float
    tail_high: float
    tail_chance: float
    share: float  # of users above the threshold
    share_low: float
    share_high: float
    share_chance: float
    share_chance_high: float  # the percentile `level` of the permutations
    worst: float  # of the worst-off user: the one with the highest lower bound
    worst_low: float  # holds for all users, and all attacks on the question, at once
    worst_high: float
    worst_trials: float  # effective number of trials that the interval follows from
    worst_chance: float
    worst_chance_high: float  # the percentile `level` of the permutations
    worst_low_chance: float  # the same percentile of `worst_low`, so of what can be shown about one user
    p: float  # of the permutation test that nobody leaks, corrected for all attacks on the question
    leaks: bool  # the worst-off user is shown to leak: p <= 1 - level, worst_low > worst_low_chance
    values: list[float] = []  # the score of each user, highest first
