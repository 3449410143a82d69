"""Metrics of the identify game, as a table of options against users.

Every metric is kept as a table whose entry [o, u] is the score of the predictions if option o were the right answer
for user u. The diagonal is the score; any other assignment of options to users is a permutation of identities,
so the chance level needs no second pass over the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError
from fedleak.lazy import stats

__all__ = ["Tally", "average_precision", "top", "hits", "derangement", "derangements"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tally:
    """The value of one metric for every pairing of an option with a user."""

    table: Table  # (options, users)
    weights: npt.NDArray[np.float64]  # of each user in the mean; 0 for users who sent no update
    blind: float  # the score of a blind guess
    # (options, users), the share of a user's questions in which the option could be chosen; None: always. The table
    # counts only these: a user who is absent cannot be found, and the true one is always there.
    available: Table | None = None

    @property
    def per_user(self) -> npt.NDArray[np.float64]:
        """The metric of each user with the true answer."""
        return self.table.diagonal()

    @property
    def value(self) -> float:
        """The weighted mean over users."""
        return float(np.average(self.per_user, weights=self.weights))

    @property
    def present(self) -> IntArray:
        """The users who sent an update; identities are permuted among them."""
        found = np.flatnonzero(self.weights)
        if len(found) < 2:
            raise AttackError(
                "fewer than two users sent an update, so identities cannot be permuted; train more rounds"
            )
        return found

    def under(self, orders: IntArray) -> npt.NDArray[np.float64]:
        """The metric with identities permuted, once per permutation of those present, (permutations, users).

        1/U is not the chance level of average precision: updates of one user rank together under any
        identity, which raises it.
        """
        present = self.present
        weights = np.broadcast_to(self.weights[present], orders.shape)
        if self.available is not None:
            weights = weights * self.available[present[orders], present]
        total = weights.sum(axis=1)
        summed = (self.table[present[orders], present] * weights).sum(axis=1)
        return np.asarray(np.divide(summed, total, out=np.full(len(total), self.blind), where=total > 0))


def derangement(n: int, rng: np.random.Generator) -> IntArray:
    """A permutation that leaves nothing in place, uniform among those (by rejection: 1 in e is accepted)."""
    while True:
        order = rng.permutation(n)
        if not (order == np.arange(n)).any():
            return order


def derangements(n: int, times: int, rng: np.random.Generator) -> IntArray:
    """Many of them, (times, n). One user has none, and keeps their place.

    Chance is the mean over derangements: a permutation with a fixed point would keep a true pair and raise it.
    """
    found = np.zeros((0, n), dtype=np.int64)
    while len(found) < times:
        drawn = rng.permuted(np.tile(np.arange(n), (3 * times, 1)), axis=1)
        found = np.concatenate([found, drawn[(drawn != np.arange(n)).all(axis=1) | (n < 2)]])
    return found[:times]


def average_precision(claims: FloatArray, right: IntArray, users: int | None = None) -> Tally:
    """Average precision of each user: rank all updates by the prediction for that user (Orekondy et al., 2020).

    Equal predictions share a threshold, as in scikit-learn's average_precision_score. Only the first `users` options
    are users (all of them, if absent); updates of other senders are ranked too, but match no user.
    """
    users = claims.shape[1] if users is None else users
    # how many predictions are at least as high
    rank = stats.rankdata(-claims[:, :users].astype(np.float64), method="max", axis=0)
    table = np.zeros((users, users))
    counts = np.bincount(right, minlength=users)[:users]
    for user in np.flatnonzero(counts):
        ranks = np.sort(rank[right == user], axis=0)
        found = np.broadcast_to(np.arange(1, len(ranks) + 1)[:, None], ranks.shape).copy()
        for i in range(len(ranks) - 2, -1, -1):
            found[i] = np.where(ranks[i] == ranks[i + 1], found[i + 1], found[i])
        table[:, user] = (found / ranks).mean(axis=0)
    present = counts > 0
    return Tally(table, present.astype(np.float64), blind=counts.sum() / len(right) / max(1, int(present.sum())))


def top(claims: FloatArray, right: IntArray, k: int, users: int | None = None) -> Tally:
    """Share of each user's updates for which the user is among the k highest predictions.

    Only the first `users` options are users (all, if absent); another option predicts no user.
    """
    users = claims.shape[1] if users is None else users
    counts = np.bincount(right, minlength=users)[:users]
    known = right < users
    table = np.zeros((users, users))
    np.add.at(table.T, right[known], hits(claims, k)[known, :users])
    return Tally(table / np.maximum(counts, 1), counts.astype(np.float64), blind=min(1.0, k / users))


def hits(claims: FloatArray, k: int) -> Table:
    """Whether each option is among the k highest predictions of a question.

    Ties are broken at random in expectation, so that constant predictions gain nothing.
    """
    above = stats.rankdata(-claims, method="min", axis=1) - 1
    tied = stats.rankdata(-claims, method="max", axis=1) - above
    return np.asarray(np.clip((k - above) / tied, 0, 1))
