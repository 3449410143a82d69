"""The input of a metric (an attack's predictions with the true answers) and its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.metrics.interval import Ends, Interval, across_runs
from fedleak.trace.evidence import Evidence

__all__ = ["Predictions", "Answers", "AttackResult", "Measured", "pooled", "groups", "measured"]

Predictions: TypeAlias = npt.NDArray[Any]
"""The predictions of an attack: plain numbers, (questions, ...); the game defines their meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The true option of every question, and its user; hidden from the attacks.

    A game whose metrics need more fields subclasses it.
    """

    # (questions,) index into the options; where there is one option, 1 for yes and 0 for no; for records,
    # (questions, characters) the record itself
    right: IntArray
    who: IntArray  # (questions,), or (questions, 2) for pairs: index into `users`, which intervals resample
    users: tuple[str, ...]
    # (questions, 2), where one update is searched for among many: the gap in rounds, and a number for each such
    # search, over all questions that belong to it
    gallery: IntArray | None = None
    evidence: Evidence | None = None  # users' data, where images are scored against it
    judged: tuple[str, ...] = ()  # a property that images are judged by, and its value for each of the users
    scored: IntArray | None = None  # the questions that are scored, where the attack must not know them; all if absent
    # (questions, 4), where a whole grid is asked: the grid, the place on one side, the user on the other, and
    # which of that user's it is. Users exchange their places on that side for the test behind a verdict.
    cells: IntArray | None = None
    # (questions,), where many users are behind one client: the user in question, by any number. `who` and `users` are
    # then clients: users of one client share its updates, so clients are what is resampled and permuted.
    behind: IntArray | None = None


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack's predictions on one trained federation, with the true answers."""

    seed: int
    claims: Predictions  # (questions, options), or rankings of records: (questions, places, characters)
    right: IntArray
    options: tuple[str, ...]
    game: str = ""  # its name, for messages
    who: IntArray | None = None  # the user of each question: index into `users`; (questions, 2) for pairs
    users: tuple[str, ...] = ()
    choices: int = 0  # the number of possible answers where the options are not listed
    gallery: IntArray | None = None  # (questions, 2): gap and number of the search that a question belongs to
    evidence: Evidence | None = None  # users' data, where images are scored against it
    judged: tuple[str, ...] = ()  # a property that images are judged by, and its value for each of the users
    answers: Answers | None = None  # as the game gave them, with whatever else its metrics need
    asked: Predictions | None = None  # the predictions for all questions, those that are not scored included

    @classmethod
    def of(
        cls, seed: int, claims: Predictions, game: str, options: tuple[str, ...], choices: int, answers: Answers
    ) -> AttackResult:
        """Combine the predictions for the scored questions with the true answers."""
        scored = slice(None) if answers.scored is None else answers.scored
        return cls(
            seed=seed,
            claims=claims[scored],
            right=answers.right[scored],
            options=options,
            game=game,
            who=answers.who[scored],
            users=answers.users,
            choices=choices,
            gallery=None if answers.gallery is None else answers.gallery[scored],
            evidence=answers.evidence,
            judged=answers.judged,
            answers=answers,
            asked=claims,
        )

    @property
    def behind(self) -> IntArray | None:
        """The user of each scored question, where many users are behind one client."""
        if self.answers is None or self.answers.behind is None:
            return None
        scored = slice(None) if self.answers.scored is None else self.answers.scored
        return self.answers.behind[scored]

    @property
    def about(self) -> IntArray:
        """The users of each question, (questions, 1 or 2)."""
        assert self.who is not None, "only `identify` can be scored without the users of its questions"
        return self.who.reshape(len(self.right), -1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric with its interval and its chance level."""

    value: float
    low: float  # of users and, with several seeds, of runs
    high: float
    chance: float
    chance_high: float
    chance_low: float
    n: int
    users: int
    options: int
    null: npt.NDArray[np.float64] = field(repr=False, compare=False)  # under each permutation, mean over seeds
    by_seed: tuple[float, ...] = ()  # without seeds in which the metric is undefined
    within: Interval | None = None  # the interval of users alone, as if the runs were the only ones possible
    # For the test behind a verdict: the mean over seeds under permutations that all attacks on a question share;
    # without it, `null`.
    permuted: npt.NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    exact_p: float | None = None  # where the distribution of blind guesses is known, instead of permutations
    least: int = 1  # no verdict is given about fewer users, or about users behind fewer clients
    clients: int | None = None  # where many users are behind one client: the clients, which were resampled and permuted
    ends: Ends | None = field(default=None, repr=False, compare=False)  # the interval of another level


def pooled(played: Sequence[AttackResult]) -> tuple[int, list[IntArray]]:
    """Number the users of all seeds by name: a user in several runs is still one user to resample.

    Returns the number of users, and for every seed the users of each question, (questions, 1 or 2).
    """
    place: dict[str, int] = {}
    found = []
    for one in played:
        present, inverse = np.unique(one.about, return_inverse=True)
        numbers = np.asarray([place.setdefault(one.users[i], len(place)) for i in present], dtype=np.int64)
        found.append(numbers[inverse.reshape(one.about.shape)])
    return len(place), found


def groups(played: Sequence[AttackResult], users: int, who: Sequence[IntArray]) -> IntArray:
    """The answer of each user, in all questions of all seeds; 0 for every user where one has two answers."""
    answer = np.zeros(users, dtype=np.int64)
    for one, about in zip(played, who, strict=True):
        answer[about[:, 0]] = one.right
    single = all((answer[about] == one.right[:, None]).all() for one, about in zip(played, who, strict=True))
    return answer if single else np.zeros(users, dtype=np.int64)


def measured(
    played: Sequence[AttackResult],
    value: float,
    ends: Ends,
    *,
    level: float,
    blind: float,
    nulls: Sequence[npt.NDArray[np.float64]],
    by_seed: Sequence[float],
    users: int,
    options: int,
    least: int,
    permuted: Sequence[npt.NDArray[np.float64]] | None = None,
    exact: bool = False,
    exact_p: float | None = None,
    largest: float = 1.0,
    lower_leaks: bool = False,
) -> Measured:
    """Combine a metric with its chance level, from its permutations in every seed.

    `ends` is the interval that resamples users, of shares of `largest`. `blind` is the score of a blind guess. Under
    permuted identities a good attack may score less, so chance is never below it. `exact`: the mean over all
    permutations equals `blind`, and the mean over the drawn ones would only add noise. `permuted` are the permutations
    of the test, if they are not those of the chance level.
    """
    null = np.mean(nulls, axis=0)
    wide = across_runs(ends, value / largest, [one / largest for one in by_seed], level)

    def scaled(every: Ends, at: float) -> Interval:
        found = every(at)
        return Interval(found.low * largest, found.high * largest)

    interval = scaled(wide, level)
    low, high = (float(np.quantile(null, tail)) for tail in (0.025, 0.975))
    behind = [one.behind for one in played if one.behind is not None]
    return Measured(
        value=value,
        low=interval.low,
        high=interval.high,
        chance=blind if exact else float(null.mean()) if lower_leaks else max(blind, float(null.mean())),
        chance_high=low if lower_leaks else max(blind, high),
        chance_low=high if lower_leaks else low,
        n=sum(len(one.right) for one in played),
        users=len(np.unique(np.concatenate(behind))) if behind else users,
        clients=users if behind else None,
        options=options,
        null=null,
        by_seed=tuple(by_seed),
        within=scaled(ends, level),
        permuted=null if permuted is None else np.mean(permuted, axis=0),
        exact_p=exact_p,
        least=least,
        ends=lambda at: scaled(wide, at),
    )
