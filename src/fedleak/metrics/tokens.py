"""Metrics of the `tokens` game: the words that an attack names, against those of the client and of other clients.

Everybody uses common words, so naming these is right for anyone. The same words are therefore scored against every
other client's vocabulary, too: that is chance, and the difference is what the attack knows of this client.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.metrics.attack_result import Answers, AttackResult, Measured
from fedleak.metrics.per_user import EachUser, UserScores
from fedleak.metrics.records import tabled

__all__ = ["TokenAnswers", "NAMED_TOKENS", "f1", "precision", "recall", "own_recall", "has_own"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswers(Answers):
    """Which tokens are in the client's texts."""

    held: npt.NDArray[np.bool_]  # (questions, vocabulary)


def _counts(one: AttackResult) -> tuple[Table, Table, Table]:
    """Tokens named by each prediction (row) that a user (column) holds; how many are named, and how many are held."""
    assert isinstance(one.answers, TokenAnswers)
    named, held = one.claims > 0, one.answers.held
    return (
        (named.astype(np.float64) @ held.T.astype(np.float64)),
        named.sum(axis=1, keepdims=True).astype(np.float64),
        held.sum(axis=1)[None].astype(np.float64),
    )


def _f1(one: AttackResult) -> Table:
    right, named, held = _counts(one)
    return np.asarray(2 * right / (named + held))  # nobody holds nothing


def _precision(one: AttackResult) -> Table:
    right, named, _ = _counts(one)
    return np.asarray(right / np.maximum(named, 1))


def _recall(one: AttackResult) -> Table:
    right, _, held = _counts(one)
    return np.asarray(right / held)


def _own(one: AttackResult) -> npt.NDArray[np.bool_]:
    """The tokens that a client holds and no other client in question does, (questions, vocabulary)."""
    assert isinstance(one.answers, TokenAnswers)
    held = one.answers.held
    return np.asarray(held & (held.sum(axis=0) == 1))


def has_own(played: Sequence[AttackResult]) -> bool | str:
    """Whether some client of every run has a token of its own."""
    if all(_own(one).any() for one in played):
        return True
    return "in some run every word of a client is used by another client in question, too"


def _measured(name: str, tables: Sequence[Table], played: Sequence[AttackResult], level: float, times: int) -> Measured:
    return tabled(played, name, tables, [np.ones(len(table)) for table in tables], 0.0, level, times)


def f1(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """The harmonic mean of precision and recall, mean over clients."""
    return _measured("f1", [_f1(one) for one in played], played, level, permutations)


def precision(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Of the tokens that are named for a client, the share that is in its texts; 0 where none is named."""
    return _measured("precision", [_precision(one) for one in played], played, level, permutations)


def recall(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Of the tokens in a client's texts, the share that is named."""
    return _measured("recall", [_recall(one) for one in played], played, level, permutations)


def own_recall(played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """Of the tokens that only this client uses, the share that is named; over clients that have one."""
    tables, weights = [], []
    for one in played:
        own = _own(one).astype(np.float64)
        many = own.sum(axis=1)
        tables.append((one.claims > 0).astype(np.float64) @ own.T / np.maximum(many, 1)[None])
        weights.append((many > 0).astype(np.float64))
    return tabled(played, "own-recall", tables, weights, 0.0, level, permutations)


def _each(one: AttackResult) -> UserScores:
    # The tokens of a user come from one update, so they count as one trial.
    return UserScores.of_table([one.users[user] for user in one.about[:, 0]], _f1(one), np.ones(len(one.right)))


NAMED_TOKENS = EachUser(
    scores=_each,
    title="F1 of the words named for a user",
    threshold=0.9,
    above="have nearly all of their words named, and few others (F1 above 0.9)",
)
