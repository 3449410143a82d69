"""The score of a single user in each game: what `per_user` summarises."""

from __future__ import annotations

import numpy as np

from fedleak.core import IntArray
from fedleak.metrics import binary, disaggregation, identification, linking, records, recovery, traits
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.per_user import EachUser, UserScores
from fedleak.metrics.permutation import top
from fedleak.metrics.ranking import Ranking

__all__ = ["NAMED", "FOUND_AGAIN", "MATCHED", "FITTING", "GROUPED", "EXTRACTED", "RECONSTRUCTED", "RECOVERED", "EXACT"]


def _named(one: AttackResult) -> UserScores:
    count = identification.users(one)
    found = top(one.claims, one.right, 1, count)
    return UserScores.of_table(one.options[:count], found.table, found.weights)


def _found_again(one: AttackResult) -> UserScores:
    as_users, found = linking.as_searches(one, 1)
    return UserScores.of_table(as_users.options, found.table, found.weights)


def _matched(one: AttackResult) -> UserScores:
    """The area under the ROC curve of the pairs in which a user occurs.

    They count as one trial: within a run they share updates, and compare the user with few others.
    """
    names, values, places = [], [], []
    for user in np.unique(one.about):
        rows = np.flatnonzero((one.about == user).any(axis=1))
        every, right = np.ones((1, len(rows))), one.right[None, rows].astype(np.float64)
        [area] = Ranking.of(one.claims[rows, 0]).auc(right, every)
        if np.isfinite(area):  # a user may have no pair of one of the two kinds
            names.append(one.users[user])
            values.append(area)
            places.append(user)
    together = _connected(one.about, len(one.users))[np.asarray(places, dtype=np.int64)]
    return UserScores(tuple(names), np.asarray(values, dtype=np.float64), np.ones(len(names)), together=together)


def _connected(pairs: IntArray, users: int) -> IntArray:
    """The number of the group of each user, where users in one pair are in one group."""
    group = np.arange(users, dtype=np.int64)
    while True:
        before = group.copy()
        least = group[pairs].min(axis=1)
        for side in pairs.T:
            np.minimum.at(group, side, least)
        if (group == before).all():
            return group


def _fitting(one: AttackResult) -> UserScores:
    """The share of the users of the other group that a user is ranked on the right side of; ties count half."""
    names, claims, fits = binary.per_user(one)
    beaten = (claims[:, None] > claims[None]) + 0.5 * (claims[:, None] == claims[None])  # [a, b]: a is above b
    apart = 1.0 - np.eye(len(claims))
    yes, no = apart * (fits > 0.5), apart * (fits <= 0.5)  # (user, member of the group other than the user)
    as_yes = (beaten * no).sum(axis=1) / np.maximum(no.sum(axis=1), 1)
    as_no = ((1 - beaten) * yes).sum(axis=1) / np.maximum(yes.sum(axis=1), 1)
    table = np.where(fits[:, None] > 0.5, as_yes[None], as_no[None])
    return UserScores.of_table(names, table, np.ones(len(names)))


def _grouped(one: AttackResult) -> UserScores:
    value, shares = traits.answered(one)
    present, counts = np.unique(one.about[:, 0], return_counts=True)
    return UserScores.of_table([one.users[i] for i in present], shares[:, value].T, counts.astype(np.float64))


def _extracted(one: AttackResult) -> UserScores:
    return _of_clients(one, (records.places(one) < 1).astype(np.float64)[records.own_rows(one)])


def _reconstructed(one: AttackResult) -> UserScores:
    # The judge of images, which the same file uses, takes long to import.
    from fedleak.metrics.reconstruction import nearest_table

    return _of_clients(one, nearest_table(one))


def _recovered(one: AttackResult) -> UserScores:
    return _of_clients(one, disaggregation.recovered_table(one))


def _exact(one: AttackResult) -> UserScores:
    names, table = recovery.each_user(one)
    return UserScores.of_table(names, table, np.ones(len(names)))


def _of_clients(one: AttackResult, table: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> UserScores:
    """Scores of each client's predictions (row) for each user (column): one trial per run."""
    return UserScores.of_table([one.users[i] for i in one.about[:, 0]], table, np.ones(len(table)))


NAMED = EachUser(
    scores=_named,
    title="share of a user's updates that are attributed to them",
    threshold=0.5,
    above="are named in more than half of their updates",
)
FOUND_AGAIN = EachUser(
    scores=_found_again,
    title="share of a user's updates that are found again in the next round",
    threshold=0.5,
    above="have more than half of their updates found again in the next round",
)
MATCHED = EachUser(
    scores=_matched,
    title="area under the ROC curve of the pairs in which a user occurs",
    threshold=0.75,
    above="have their own pairs told from others in more than three quarters of comparisons",
)
FITTING = EachUser(
    scores=_fitting,
    title="share of the other group that a user is told apart from",
    threshold=0.75,
    above="are told apart from more than three quarters of the other group",
)
GROUPED = EachUser(
    scores=_grouped,
    title="share of a user's updates for which their group is predicted",
    threshold=0.5,
    above="have their group predicted from more than half of their updates",
)
EXTRACTED = EachUser(
    scores=_extracted,
    title="share of the runs in which the first record predicted for a user's client is the user's secret",
    threshold=0.5,
    above="have their secret predicted first in more than half of the runs",
)
RECONSTRUCTED = EachUser(
    scores=_reconstructed,
    title="share of a victim's reconstructed images that are nearest to the victim's own",
    threshold=0.5,
    above="have more than half of their reconstructed images nearest to their own",
)
RECOVERED = EachUser(
    scores=_recovered,
    title="share of the runs in which the mean update of a user's client is recovered",
    threshold=0.5,
    above="have their mean update recovered in more than half of the runs",
)
EXACT = EachUser(
    scores=_exact,
    title="share of a user's examples that are recovered exactly",
    threshold=0.5,
    above="have more than half of their examples recovered exactly",
)
