"""The `identify` game, closed world: who of these people sent this anonymous update?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedleak.core import IntArray, UserId
from fedleak.errors import AttackError
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Questions", "Answers", "identify"]


@dataclass(frozen=True, slots=True)
class Questions:
    """What an attack is asked: for each of these updates, a score for every option."""

    updates: IntArray  # rows of the view's updates, anonymous ones only
    options: tuple[UserId, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The right option of every question; kept from the attacks."""

    right: IntArray  # index into the options


def identify(trace: Trace, truth: Truth, prior: Prior) -> tuple[Questions, Answers]:
    """Ask about every update of an anonymous device; the options are all people with prior data."""
    rows = np.flatnonzero(np.asarray(trace.shadow) < 0)
    if len(rows) == 0:
        raise AttackError(
            f"{trace.folder}: no anonymous update was recorded, so there is nothing to ask; train more rounds"
        )
    option = {user: i for i, user in enumerate(prior.candidates)}
    sender = [truth.device_user[device] for device in trace.header.devices]
    strangers = sorted({str(user) for user in sender} - {str(user) for user in option})
    if strangers:
        raise AttackError(
            f"{trace.folder}: the adversary has no prior data of {len(strangers)} participants "
            f"(first: {strangers[0]}); the closed-world game needs every participant among the options"
        )
    right = np.asarray([option[user] for user in sender], dtype=np.int64)[np.asarray(trace.device)[rows]]
    return Questions(updates=rows, options=prior.candidates), Answers(right=right)
