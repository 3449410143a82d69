"""Metrics of source inference: is a record attributed to the client that holds it? (Hu et al., 2021).

All records of a user go together, and so does everything that an attack says of one client: identities of whole users
are permuted, as in the game `identify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedleak.core import IntArray
from fedleak.metrics import identification
from fedleak.metrics.attack_result import Answers, AttackResult, Measured
from fedleak.metrics.per_user import EachUser, UserScores
from fedleak.metrics.permutation import top as top_tally

__all__ = ["SourceAnswers", "TRAINED", "UNUSED", "NOBODY", "part", "applies", "top", "each", "ATTRIBUTED"]

UNUSED, TRAINED, NOBODY = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswers(Answers):
    """What each question is about, beyond the answer."""

    # (questions,): TRAINED on by the user's client, UNUSED by any client though of the same user, or of NOBODY who
    # takes part
    kind: IntArray


def part(one: AttackResult, kind: int) -> AttackResult:
    """The questions about one kind of record; the options are users, by whom runs are pooled."""
    assert isinstance(one.answers, SourceAnswers)
    rows = np.flatnonzero(one.answers.kind == kind)
    return replace(
        one,
        claims=one.claims[rows],
        right=one.right[rows],
        who=None if one.who is None else one.who[rows],
        options=one.users,
        answers=None,
        asked=None,
    )


def applies(kind: int, played: Sequence[AttackResult]) -> bool:
    """Whether records of this kind were asked about."""
    return all(len(part(one, kind).right) > 0 for one in played)


def top(k: int, kind: int, played: Sequence[AttackResult], *, level: float, permutations: int) -> Measured:
    """The share of records whose client is among the k highest predictions."""
    return identification.top(k, [part(one, kind) for one in played], level=level, permutations=permutations)


def each(one: AttackResult, kind: int = TRAINED) -> dict[str, tuple[float, float]]:
    """The share of each user's records that are attributed to their client, with its weight in the mean."""
    return identification.each(part(one, kind), 1)


def _attributed(one: AttackResult) -> UserScores:
    shown = part(one, TRAINED)
    found = top_tally(shown.claims, shown.right, 1, len(shown.options))
    return UserScores.of_table(shown.options, found.table, found.weights)


ATTRIBUTED = EachUser(
    scores=_attributed,
    title="share of a user's training records that are attributed to the user's client",
    threshold=0.5,
    above="have more than half of their training records attributed to their client",
)
