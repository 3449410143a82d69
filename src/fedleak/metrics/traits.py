"""The `attribute` game: which of these values does the sender of an update have?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedleak.core import IntArray, rng_for
from fedleak.metrics.attack_result import AttackResult, Measured, groups, measured, pooled
from fedleak.metrics.interval import in_slices, resampled, resampled_users
from fedleak.metrics.permutation import hits
from fedleak.metrics.ranking import Ranking, Weights
from fedleak.metrics.shuffles import Deal, deals, identities, least_for_answers

__all__ = ["top1", "average_precision", "answered", "each"]


def top1(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean over users of the share of their updates that are predicted correctly.

    Always predicting the most common value is right as often as it occurs; chance is never below that.
    """
    users, who = pooled(played)
    sums, seeds, nulls, majority, by_seed = np.zeros(users), np.zeros(users), [], [], []
    names = [[one.users[i] for i in np.unique(one.about[:, 0])] for one in played]
    orders = identities(names, permutations, played[0].seed)
    for one, about, order in zip(played, who, orders, strict=True):
        value, shares = answered(one)
        present, everyone = about[np.unique(one.about, return_index=True)[1], 0], np.arange(len(value))
        sums[present] += shares[everyone, value]
        seeds[present] += 1
        majority.append(np.bincount(value).max() / len(value))
        by_seed.append(float(shares[everyone, value].mean()))
        nulls.append(shares[everyone, value[order]].mean(axis=1))
    values = sums / np.maximum(seeds, 1)
    counts = max((np.unique(answered(one)[0], return_counts=True)[1] for one in played), key=sum)
    return measured(
        played,
        float(np.average(values, weights=seeds)),
        resampled_users(values, seeds, rng_for(played[0].seed, "interval", "top1")),
        level=level,
        blind=float(np.mean(majority)),
        nulls=nulls,
        by_seed=by_seed,
        least=least_for_answers(counts.tolist(), level),
        users=users,
        options=max(len(one.options) for one in played),
    )


def answered(one: AttackResult) -> tuple[IntArray, Weights]:
    """The value of each user, and the share of the user's updates predicted as each value."""
    _, first, user = np.unique(one.about[:, 0], return_index=True, return_inverse=True)
    shares = np.zeros((len(first), len(one.options)))
    np.add.at(shares, user, hits(one.claims, 1))
    return one.right[first], shares / np.bincount(user)[:, None]


def each(one: AttackResult) -> dict[str, tuple[float, float]]:
    """The share of each user's updates that are predicted correctly, with the same weight for every user."""
    value, shares = answered(one)
    names = [one.users[place] for place in np.unique(one.about[:, 0])]
    return {name: (float(share[v]), 1.0) for name, v, share in zip(names, value, shares, strict=True)}


def average_precision(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Mean over values of the average precision of ranking all updates by the prediction for that value."""
    users, who = pooled(played)
    rankings = [[Ranking.of(column) for column in one.claims.T] for one in played]

    def statistic(weights: Weights) -> Weights:
        rows = [
            _macro(ranked, one.right[None], weights[:, about[:, 0]])
            for one, ranked, about in zip(played, rankings, who, strict=True)
        ]
        return np.asarray(np.mean(rows, axis=0))

    def null(one: AttackResult, ranked: Sequence[Ranking], deal: Deal) -> Weights:
        every = np.ones((1, len(one.right)))
        return in_slices(lambda rows: _macro(ranked, deal(rows), every), permutations, len(one.right))

    questions, rng = max(len(one.right) for one in played), rng_for(played[0].seed, "interval", "ap")
    dealt, least = deals(played, permutations, level)
    return measured(
        played,
        float(statistic(np.ones((1, users)))[0]),
        resampled(statistic, groups(played, users, who), questions, rng),
        level=level,
        blind=float(np.mean([1 / len(np.unique(one.right)) for one in played])),
        nulls=[null(*seed) for seed in zip(played, rankings, dealt, strict=True)],
        by_seed=[
            float(_macro(ranked, one.right[None], np.ones((1, len(one.right))))[0])
            for one, ranked in zip(played, rankings, strict=True)
        ],
        least=least,
        users=users,
        options=max(len(one.options) for one in played),
    )


def _macro(rankings: Sequence[Ranking], right: IntArray, every: Weights) -> Weights:
    """The mean over the values that occur."""
    rows = np.stack(
        [ranking.average_precision((right == value) * every, every) for value, ranking in enumerate(rankings)]
    )
    there = np.isfinite(rows)
    return np.asarray(np.where(there, rows, 0).sum(axis=0) / there.sum(axis=0))
