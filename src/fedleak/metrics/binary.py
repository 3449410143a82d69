"""Games with one yes/no option: `match`, `cross-modal`, `profile`, and `unseen` of an open world."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedleak.core import IntArray, rng_for
from fedleak.errors import AttackError
from fedleak.metrics.attack_result import AttackResult, Measured, groups, measured, pooled
from fedleak.metrics.interval import in_slices, resampled, wilson
from fedleak.metrics.ranking import Ranking, Weights
from fedleak.metrics.shuffles import Deal, deals, exchanged, identities, least_for_answers, least_for_identities

__all__ = ["average_precision", "auc", "by_weights", "precision_at", "per_user"]

Metric = Callable[[Ranking, Weights, Weights], Weights]


def average_precision(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Rank all questions by their prediction; chance is the share of true ones, or the permutations' mean if higher."""
    blind = float(np.mean([np.mean(one.right) for one in played]))
    return _ranked(played, "ap", Ranking.average_precision, blind, level, permutations)


def auc(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """How often a true question has a higher prediction than a false one."""
    return _ranked(played, "auc", Ranking.auc, 0.5, level, permutations)


def _ranked(
    played: Sequence[AttackResult], name: str, metric: Metric, blind: float, level: float, permutations: int
) -> Measured:
    users, who = pooled(played)
    rankings = [Ranking.of(one.claims[:, 0]) for one in played]
    for one in played:
        if not 0 < one.right.sum() < len(one.right):
            raise AttackError(
                f"game '{one.game}', seed {one.seed}: the true answer is the same for all {len(one.right)} questions, "
                "so nothing can be told apart; train more rounds or change the game's settings"
            )

    statistic = by_weights(played, rankings, who, metric)
    questions, rng = max(len(one.right) for one in played), rng_for(played[0].seed, "interval", name)
    taken = exchanged(played, permutations)
    if taken is not None:
        least = least_for_identities(level)
        nulls = [_exchanged_null(one, metric, each) for one, each in zip(played, taken, strict=True)]
    else:
        dealt, least = deals(played, permutations, level)
        nulls = [
            _null(len(one.right), ranking, metric, deal, permutations)
            for one, ranking, deal in zip(played, rankings, dealt, strict=True)
        ]
    # A permutation may have no true question, where not every user is compared with every other.
    nulls = [np.where(np.isfinite(null), null, blind) for null in nulls]
    return measured(
        played,
        float(statistic(np.ones((1, users)))[0]),
        resampled(statistic, groups(played, users, who), questions, rng),
        level=level,
        blind=blind,
        nulls=nulls,
        by_seed=[
            float(metric(ranking, one.right[None].astype(np.float64), np.ones((1, len(one.right))))[0])
            for one, ranking in zip(played, rankings, strict=True)
        ],
        least=least,
        users=users,
        options=1,
        exact=name == "auc",
    )


def by_weights(
    played: Sequence[AttackResult], rankings: Sequence[Ranking], who: Sequence[IntArray], metric: Metric
) -> Callable[[Weights], Weights]:
    """A metric of rankings as a function of how often each user is drawn: (resamples, users) -> (resamples,)."""

    def statistic(weights: Weights) -> Weights:
        rows = []
        for one, ranking, about in zip(played, rankings, who, strict=True):
            # A pair of different users counts only if both are drawn; a pair of one user needs just that user. The
            # product of their weights is mildly conservative (Owen and Eckles, 2012, "Bootstrapping data arrays").
            pair = about[:, 0] != about[:, -1]
            every = weights[:, about[:, 0]] * np.where(pair, weights[:, about[:, -1]], 1.0)
            rows.append(metric(ranking, every * one.right, every))
        return _mean(rows)

    return statistic


def _null(questions: int, ranking: Ranking, metric: Metric, deal: Deal, permutations: int) -> Weights:
    every = np.ones((1, questions))
    return in_slices(lambda rows: metric(ranking, deal(rows).astype(np.float64), every), permutations, questions)


def _exchanged_null(one: AttackResult, metric: Metric, taken: IntArray) -> Weights:
    """The metric of the same questions with the predictions that were made for other users."""
    assert one.asked is not None
    right, every = one.right[None].astype(np.float64), np.ones((1, len(one.right)))
    return np.asarray([metric(Ranking.of(one.asked[row, 0]), right, every)[0] for row in taken])


def _mean(rows: Sequence[Weights]) -> Weights:
    """The mean over the seeds where the metric is defined."""
    stacked = np.stack(rows)
    there = np.isfinite(stacked)
    many = there.sum(axis=0)
    return np.where(many > 0, np.where(there, stacked, 0).sum(axis=0) / np.maximum(many, 1), np.nan)


def precision_at(k: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Share of fitting users among the k users whose updates have the highest mean prediction.

    The k predicted users are the trials of Wilson's interval: resampling all users would say little about the
    first k.
    """
    values, chances, nulls, named = [], [], [], dict[str, float]()
    each = [per_user(one) for one in played]
    orders = identities([names for names, _, _ in each], permutations, played[0].seed)
    for (names, claims, fits), order in zip(each, orders, strict=True):
        most = min(k, len(claims))
        chosen = _chosen(claims, most)
        for name, share in zip(names, chosen / most / len(played), strict=True):
            named[name] = named.get(name, 0.0) + float(share)
        values.append(float(fits @ chosen) / most)
        chances.append(float(fits.mean()))
        nulls.append(fits[order] @ chosen / most)
    value = float(np.mean(values))
    trials = 1 / sum(share * share for share in named.values())  # Kish (1965): fewer where seeds name the same users
    return measured(
        played,
        value,
        lambda at: wilson(value, trials, at),
        level=level,
        blind=float(np.mean(chances)),
        nulls=nulls,
        by_seed=values,
        least=least_for_answers(np.unique(each[0][2], return_counts=True)[1].tolist(), level),
        users=pooled(played)[0],
        options=1,
        exact=True,
    )


def per_user(one: AttackResult) -> tuple[list[str], Weights, Weights]:
    """Names of the users in question, the mean prediction for each, and whether they fit (1 or 0)."""
    present, user = np.unique(one.about[:, 0], return_inverse=True)
    counts = np.bincount(user)
    claims = np.bincount(user, weights=one.claims[:, 0].astype(np.float64)) / counts
    return [one.users[i] for i in present], claims, np.bincount(user, weights=one.right) / counts


def _chosen(claims: Weights, k: int) -> Weights:
    """The expected share of each user in the k highest, with ties broken at random."""
    ranking = Ranking.of(claims.astype(np.float32))
    share = np.empty(len(claims))
    share[ranking.order] = np.clip((k - ranking.first) / (ranking.last - ranking.first + 1), 0, 1)
    return share
