"""Metrics of membership: the ROC curve as a whole, and its steep end at few false alarms (Carlini et al., 2022).

Of records, members are compared with records of the same user that nobody trained on. Which of a user's records are
held out is drawn at random, so under the null hypothesis they are exchangeable within the user, and answers are
permuted there. Compared with records of outsiders, or asked about users as a whole, whole users are exchangeable: who
takes part is drawn at random, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, rng_for
from fedleak.errors import AttackError
from fedleak.metrics.attack_result import Answers, AttackResult, Measured, groups, measured, pooled
from fedleak.metrics.binary import by_weights
from fedleak.metrics.interval import in_slices, resampled
from fedleak.metrics.per_user import EachUser, UserScores
from fedleak.metrics.ranking import Ranking, Weights
from fedleak.metrics.shuffles import Deal, deals
from fedleak.metrics.user_scores import FITTING

__all__ = ["MembershipAnswers", "OWN", "OTHERS", "auc", "tpr", "applies", "tpr_applies", "part", "roc", "EXPOSED"]

MEMBER, HELD_OUT, OUTSIDE, UNSCORED = 1, 0, 2, 3
OWN, OTHERS = "own", "others"
_ROUND = (*(digit * 10.0**power for power in range(-4, 0) for digit in (1, 2, 5)), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipAnswers(Answers):
    """What each question is about, beyond the answer."""

    kind: IntArray  # (questions,): MEMBER, HELD_OUT (of a user who takes part), OUTSIDE, or UNSCORED
    # (questions,): whether as many records of an outsider are asked about the same client
    paired: npt.NDArray[np.bool_]


def part(one: AttackResult, against: str) -> AttackResult:
    """The questions of one comparison: members and held-out records of the same users, or members and outsiders."""
    assert isinstance(one.answers, MembershipAnswers)
    kind = one.answers.kind
    if against == OWN:
        rows = np.flatnonzero((kind == MEMBER) | (kind == HELD_OUT))
    else:
        rows = np.flatnonzero(one.answers.paired & ((kind == MEMBER) | (kind == OUTSIDE)))
    return replace(
        one,
        claims=one.claims[rows],
        right=one.right[rows],
        who=None if one.who is None else one.who[rows],
        answers=None,
        asked=None,
    )


def applies(against: str, played: Sequence[AttackResult]) -> bool | str:
    """Whether both kinds of record were asked about."""
    rights = [part(one, against).right for one in played]
    if all(0 < right.sum() < len(right) for right in rights):
        return True
    return False if against == OTHERS else "every record in question was trained on, or none was"


def tpr_applies(rate: float, against: str, played: Sequence[AttackResult]) -> bool | str:
    """Whether there are enough non-members to measure so few false alarms."""
    if applies(against, played) is not True:
        return False
    fewest = min(int((part(one, against).right == 0).sum()) for one in played)
    if fewest * rate >= 1 - 1e-9:
        return True
    return (
        f"{fewest} non-members in a run resolve false-positive rates down to {100 / fewest:.2g}%, not {100 * rate:g}%: "
        f"it takes {round(1 / rate)}; ask about more records or users, or hold out more"
    )


def auc(against: str, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """How often a member has a higher score than a non-member."""
    return _measured(played, against, f"auc {against}", Ranking.auc, 0.5, level, permutations)


def tpr(rate: float, against: str, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """The share of members that are found at this rate of false alarms."""
    metric = partial(true_positives, rate)
    return _measured(played, against, f"tpr {rate:g} {against}", metric, rate, level, permutations)


def true_positives(rate: float, ranking: Ranking, yes: Weights, every: Weights) -> Weights:
    """The ROC curve at a false-positive rate, of each row of weights; between two thresholds it is a straight line."""
    yes, every = yes[:, ranking.order], every[:, ranking.order]
    found = np.cumsum(yes, axis=1)[:, ranking.last]
    alarms = np.cumsum(every - yes, axis=1)[:, ranking.last]
    wanted = rate * alarms[:, -1]
    place = (alarms <= wanted[:, None]).sum(axis=1)  # the first place with too many alarms
    rows, last = np.arange(len(yes)), np.maximum(place - 1, 0)
    within = np.minimum(place, yes.shape[1] - 1)
    below_y, below_n = (np.where(place > 0, sums[rows, last], 0.0) for sums in (found, alarms))
    step = alarms[rows, within] - below_n
    share = np.divide(wanted - below_n, step, out=np.zeros(len(yes)), where=step > 0)
    hits = below_y + share * (found[rows, within] - below_y)
    return np.asarray(np.divide(hits, found[:, -1], out=np.full(len(yes), np.nan), where=found[:, -1] > 0))


def _measured(
    played: Sequence[AttackResult],
    against: str,
    name: str,
    metric: Callable[[Ranking, Weights, Weights], Weights],
    blind: float,
    level: float,
    permutations: int,
) -> Measured:
    parts = [part(one, against) for one in played]
    for one in parts:
        if not 0 < one.right.sum() < len(one.right):
            raise AttackError(
                f"game 'membership', seed {one.seed}: of {len(one.right)} records in question all or none are members, "
                "so nothing can be told apart; hold out more (held_out in [population]) or ask about more records"
            )
    users, who = pooled(parts)
    rankings = [Ranking.of(one.claims[:, 0]) for one in parts]
    statistic = by_weights(parts, rankings, who, metric)
    whole = all(_one_answer(one) for one in parts)  # of each user
    dealt, least = deals(parts, permutations, level) if whole else (within_users(parts, permutations), 2)

    def null(one: AttackResult, ranking: Ranking, deal: Deal) -> Weights:
        every = np.ones((1, len(one.right)))
        return in_slices(
            lambda rows: metric(ranking, (found := deal(rows).astype(np.float64)), np.broadcast_to(every, found.shape)),
            permutations,
            len(one.right),
        )

    return measured(
        parts,
        float(statistic(np.ones((1, users)))[0]),
        resampled(
            statistic,
            groups(parts, users, who),
            max(len(one.right) for one in parts),
            rng_for(played[0].seed, "interval", name),
        ),
        level=level,
        blind=blind,
        nulls=[null(*each) for each in zip(parts, rankings, dealt, strict=True)],
        by_seed=[
            float(metric(ranking, one.right[None].astype(np.float64), np.ones((1, len(one.right))))[0])
            for one, ranking in zip(parts, rankings, strict=True)
        ],
        least=least,
        users=users,
        options=1,
        exact=True,
    )


def _one_answer(one: AttackResult) -> bool:
    """Whether each user is all member or all not."""
    user = np.unique(one.about[:, 0], return_inverse=True)[1]
    share = np.bincount(user, weights=one.right) / np.bincount(user)
    return bool(np.isin(share, (0, 1)).all())


def within_users(played: Sequence[AttackResult], times: int) -> list[Deal]:
    """Permute the answers of each user's records among these; runs are independent, as are their splits."""

    def of(number: int, one: AttackResult) -> Deal:
        anchor = one.about[:, 0]
        by_user = np.argsort(anchor, kind="stable")
        drawn = rng_for(played[0].seed, "permutation", number).random((times, len(anchor)))

        def deal(rows: slice) -> IntArray:
            keys = drawn[rows]
            dealt = np.empty(keys.shape, dtype=np.int64)
            order = np.lexsort((keys, np.broadcast_to(anchor, keys.shape)), axis=1)
            np.put_along_axis(dealt, order, np.broadcast_to(one.right[by_user], keys.shape), axis=1)
            return dealt

        return deal

    return [of(number, one) for number, one in enumerate(played)]


def roc(played: Sequence[AttackResult], against: str) -> tuple[list[float], list[float]]:
    """The ROC curve at round false-positive rates, from what the non-members resolve; the mean over runs."""
    parts = [part(one, against) for one in played]
    finest = 1 / min(int((one.right == 0).sum()) for one in parts)
    rates = [rate for rate in _ROUND if rate >= finest - 1e-12]
    values = []
    for one in parts:
        ranking, yes, every = (
            Ranking.of(one.claims[:, 0]),
            one.right[None].astype(np.float64),
            np.ones((1, len(one.right))),
        )
        values.append([float(true_positives(rate, ranking, yes, every)[0]) for rate in rates])
    return rates, [float(value) for value in np.mean(values, axis=0)]


def _exposed(one: AttackResult) -> UserScores:
    """The area under the ROC curve of each user's own records; of users as a whole, who is told from non-members.

    For the null, a user's records take each other's answers, in as many ways as there are users. So many trials of a
    coin vary as much as the area does then (Mann and Whitney, 1947).
    """
    shown = part(one, OWN)
    if _one_answer(shown):
        return FITTING.scores(shown)
    users = [user for user in np.unique(shown.about) if 0 < shown.right[shown.about[:, 0] == user].mean() < 1]
    table, trials = np.empty((len(users), len(users))), np.empty(len(users))
    for place, user in enumerate(users):
        rows = np.flatnonzero(shown.about[:, 0] == user)
        right = shown.right[rows].astype(np.float64)
        rng = rng_for(one.seed, "worst-off", int(user))
        answers = rng.permuted(np.tile(right, (len(users), 1)), axis=1)
        answers[place] = right
        table[:, place] = Ranking.of(shown.claims[rows, 0]).auc(answers, np.ones_like(answers))
        yes, no = right.sum(), len(right) - right.sum()
        trials[place] = 3 * yes * no / (yes + no + 1)
    return UserScores.of_table([one.users[user] for user in users], table, trials)


EXPOSED = EachUser(
    scores=_exposed,
    title="area under the ROC curve of a user's own records",
    threshold=0.75,
    above="have their members told from their non-members in more than three quarters of comparisons",
)
