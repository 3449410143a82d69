"""The `identify` game: who of these users sent this update?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import rng_for
from fedleak.metrics import binary
from fedleak.metrics.attack_result import AttackResult, Measured, measured
from fedleak.metrics.interval import resampled_users
from fedleak.metrics.permutation import Tally, derangements
from fedleak.metrics.permutation import average_precision as average_precision_tally
from fedleak.metrics.permutation import top as top_tally
from fedleak.metrics.shuffles import identities, least_for_identities

__all__ = ["average_precision", "top", "each", "unseen", "unseen_asked", "open_world", "users", "by_tally", "UNSEEN"]

UNSEEN = "unseen"


def average_precision(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean over the candidate users of the average precision of finding their updates among all."""
    return by_tally(
        played, "ap", lambda one: average_precision_tally(one.claims, one.right, users(one)), level, permutations
    )


def top(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of the candidate users' updates whose sender is among the k highest predictions."""
    return by_tally(played, f"top{k}", lambda one: top_tally(one.claims, one.right, k, users(one)), level, permutations)


def each(one: AttackResult, k: int | None = None) -> dict[str, tuple[float, float]]:
    """The average precision of each user, or their top-k accuracy, with its weight in the mean."""
    count = users(one)
    found = (
        average_precision_tally(one.claims, one.right, count)
        if k is None
        else top_tally(one.claims, one.right, k, count)
    )
    values = zip(found.per_user.tolist(), found.weights.tolist(), strict=True)
    return dict(zip(one.options[:count], values, strict=True))


def unseen(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """How well updates of unseen users are distinguished from all others, by the prediction for `unseen`."""
    asked = [
        replace(one, claims=one.claims[:, -1:], right=(one.right == users(one)).astype(np.int64), options=(UNSEEN,))
        for one in played
    ]
    return binary.average_precision(asked, level=level, permutations=permutations)


def unseen_asked(played: Sequence[AttackResult]) -> bool | str:
    """Whether `unseen` is an option and both seen and unseen users sent updates; why not, if only one kind did."""
    if not all(open_world(one) for one in played):
        return False
    for one in played:
        strangers = one.right == users(one)
        if strangers.all() or not strangers.any():
            kind = "an unseen" if strangers.all() else "a seen"
            return f"seed {one.seed}: every update in the questions is of {kind} user; train more rounds"
    return True


def open_world(one: AttackResult) -> bool:
    """Whether `unseen` is an option; a user of that name does not make it one."""
    return one.options[-1] == UNSEEN and one.options != one.users


def users(one: AttackResult) -> int:
    """The number of options that are users."""
    return len(one.options) - open_world(one)


def by_tally(
    played: Sequence[AttackResult], name: str, tally: Callable[[AttackResult], Tally], level: float, permutations: int
) -> Measured:
    """Pool the seeds by user: a user in several runs is still one user to resample."""
    tallies = [tally(one) for one in played]
    totals: dict[str, list[float]] = {}
    for one, found in zip(played, tallies, strict=True):
        for user, value, weight in zip(one.options[: users(one)], found.per_user, found.weights, strict=True):
            total = totals.setdefault(user, [0.0, 0.0])
            total[0] += weight * value
            total[1] += weight
    sums = np.asarray(list(totals.values()))
    weights = sums[:, 1]
    values = sums[:, 0] / np.where(weights > 0, weights, 1)
    names = [[one.options[i] for i in found.present] for one, found in zip(played, tallies, strict=True)]
    # Seeds with the same users share their derangements: predictions about a user go together in all runs.
    nulls = [
        found.under(derangements(len(some), permutations, rng_for(played[0].seed, "null", *some)))
        for found, some in zip(tallies, names, strict=True)
    ]
    orders = identities(names, permutations, played[0].seed)
    return measured(
        played,
        float(np.average(values, weights=weights)),
        resampled_users(values, weights, rng_for(played[0].seed, "interval", name)),
        level=level,
        blind=float(np.mean([found.blind for found in tallies])),
        nulls=nulls,
        permuted=[found.under(order) for found, order in zip(tallies, orders, strict=True)],
        by_seed=[found.value for found in tallies],
        least=least_for_identities(level),
        users=int((weights > 0).sum()),
        options=max(users(one) for one in played),
    )
