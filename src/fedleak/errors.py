"""The errors that Fedleak raises on purpose; each message is meant for the user.

    FedleakError            caught by the command line: one message, no traceback, exit code 1
    +-- PlanError           the plan is wrong: file, table, key, and the nearest valid name
    +-- DataError           a data set is missing, malformed or too small for the plan
    +-- TrainingError       training cannot continue (for instance, a client sent NaN)
    +-- TraceError          a trace on disk is damaged, foreign, too new, or belongs to another plan
    +-- NotVisible          an attack asked its view for something its adversary does not see
    +-- AttackError         an attack cannot run on this trace, and why
        +-- AttackStopped   it used all of the computing time that it was given

Anything else that reaches the user is a bug in Fedleak.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "FedleakError",
    "PlanError",
    "DataError",
    "TrainingError",
    "TraceError",
    "NotVisible",
    "AttackError",
    "AttackStopped",
    "did_you_mean",
]


class FedleakError(Exception):
    """An error whose message says what is wrong, where, and how to fix it."""


class PlanError(FedleakError):
    """The plan cannot be run as it is written."""


class DataError(FedleakError):
    """The data is missing, malformed or too small."""


class TrainingError(FedleakError):
    """Training cannot continue."""


class TraceError(FedleakError):
    """The trace on disk is not a complete trace of this plan."""


class NotVisible(FedleakError):
    """An attack asked for something that its adversary does not see."""


class AttackError(FedleakError):
    """An attack cannot run on this trace."""


class AttackStopped(AttackError):
    """An attack used all of the computing time that it was given."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest valid name, or all of them if none is near.

    >>> did_you_mean("round", ["rounds", "fraction"])
    "; did you mean 'rounds'?"
    >>> did_you_mean("x", ["rounds", "fraction"])
    '; known: fraction, rounds'
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; known: {', '.join(names)}" if names else ""
