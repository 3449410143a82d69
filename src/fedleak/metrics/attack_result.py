"""What a score is made from, and what it is made into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.metrics.interval import Interval
from fedleak.trace.evidence import Evidence

__all__ = ["Predictions", "Answers", "AttackResult", "Measured", "pooled", "groups", "measured"]

Predictions: TypeAlias = npt.NDArray[Any]
"""What an attack answers: plain numbers, (questions, ...); what they mean is for the game to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The right option of every question, and who it is about; kept from the attacks.

    A game whose metrics need more derives its own from this.
    """

    # (questions,) index into the options; where there is one option, 1 for yes and 0 for no; where records are asked
    # for, (questions, characters) the record itself
    right: IntArray
    who: IntArray  # (questions,), or (questions, 2) for pairs: index into `users`, whom intervals resample
    users: tuple[str, ...]
    # (questions, 2), where one is to be found among many: how many rounds apart these are, and a number for each such
    # search, over all questions that belong to it
    gallery: IntArray | None = None
    evidence: Evidence | None = None  # users' data, where images are marked against it
    judged: tuple[str, ...] = ()  # a property that images are judged by, and its value for each of the users


@dataclass(frozen=True, slots=True)
class AttackResult:
    """One attack's claims on one trained federation, with the right answers."""

    seed: int
    claims: Predictions  # (questions, options), or rankings of records: (questions, places, characters)
    right: IntArray
    options: tuple[str, ...]
    game: str = ""  # its name, for messages
    who: IntArray | None = None  # whom each question is about: index into `users`; (questions, 2) for pairs
    users: tuple[str, ...] = ()
    choices: int = 0  # how many answers there are to a question whose options are not listed
    gallery: IntArray | None = None  # (questions, 2): gap and number of the search that a question belongs to
    evidence: Evidence | None = None  # users' data, where images are marked against it
    judged: tuple[str, ...] = ()  # a property that images are judged by, and its value for each of the users
    answers: Answers | None = None  # as the game gave them, with what else its metrics need

    @classmethod
    def of(
        cls, seed: int, claims: Predictions, game: str, options: tuple[str, ...], choices: int, answers: Answers
    ) -> AttackResult:
        """Put predictions beside the right answers."""
        return cls(
            seed=seed,
            claims=claims,
            right=answers.right,
            options=options,
            game=game,
            who=answers.who,
            users=answers.users,
            choices=choices,
            gallery=answers.gallery,
            evidence=answers.evidence,
            judged=answers.judged,
            answers=answers,
        )

    @property
    def about(self) -> IntArray:
        """The users of each question, (questions, 1 or 2)."""
        assert self.who is not None, "only `identify` can be scored without knowing whom a question is about"
        return self.who.reshape(len(self.right), -1)


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric with its interval and its chance level."""

    value: float
    low: float
    high: float
    chance: float
    chance_high: float
    chance_low: float
    n: int
    users: int
    options: int
    null: npt.NDArray[np.float64] = field(repr=False, compare=False)  # under each permutation, mean over seeds


def pooled(played: Sequence[AttackResult]) -> tuple[int, list[IntArray]]:
    """Number the users of all seeds by name: someone who took part in several runs is still one user to resample.

    Returns how many users were asked about, and for every seed whom each question is about, (questions, 1 or 2).
    """
    place: dict[str, int] = {}
    found = []
    for one in played:
        present, inverse = np.unique(one.about, return_inverse=True)
        numbers = np.asarray([place.setdefault(one.users[i], len(place)) for i in present], dtype=np.int64)
        found.append(numbers[inverse.reshape(one.about.shape)])
    return len(place), found


def groups(played: Sequence[AttackResult], users: int, who: Sequence[IntArray]) -> IntArray:
    """The answer that each user stands for, in all questions of all seeds; 0 for everyone where somebody has two."""
    answer = np.zeros(users, dtype=np.int64)
    for one, about in zip(played, who, strict=True):
        answer[about[:, 0]] = one.right
    single = all((answer[about] == one.right[:, None]).all() for one, about in zip(played, who, strict=True))
    return answer if single else np.zeros(users, dtype=np.int64)


def measured(
    played: Sequence[AttackResult],
    value: float,
    interval: Interval,
    *,
    blind: float,
    nulls: Sequence[npt.NDArray[np.float64]],
    users: int,
    options: int,
    exact: bool = False,
) -> Measured:
    """Put a metric together with its chance level, from what its permutations gave in every seed.

    `blind` is what guessing with closed eyes scores. Under permuted identities a good attack is wrong more often than
    that, so chance is never below it. `exact`: the mean over all permutations is known to be just that, and the mean
    over the drawn ones would only add their noise.
    """
    null = np.mean(nulls, axis=0)
    return Measured(
        value=value,
        low=interval.low,
        high=interval.high,
        chance=blind if exact else max(blind, float(null.mean())),
        chance_high=max(blind, float(np.quantile(null, 0.975))),
        chance_low=float(np.quantile(null, 0.025)),
        n=sum(len(one.right) for one in played),
        users=users,
        options=options,
        null=null,
    )
