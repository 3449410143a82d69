"""The ledger of a run: how much epsilon each client has spent, round by round.

It is worked out from the trace (who took part when, with how many examples) and the defence's statement, and kept
nowhere: a run that was killed and resumed has the trace of one that was not, so it has the same ledger. A round that
was interrupted is computed again with the same random draws, so that what it sends counts once.

A client that took part twice has spent less than one that took part ten times: who takes part does not depend on
anybody's data, so only rounds with a client concern its data.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Training
from fedleak.federation.promises import Promise

__all__ = ["Account", "Group", "Ledger", "Spending", "TookPart", "accounts", "ledger_of", "spending"]

_MOST_TIGHT = 24  # clients that get the statement's accountant, which takes a third of a second; the others a fast one


@dataclass(frozen=True, slots=True)
class TookPart:
    """What the trace says of one client."""

    client: str
    examples: int  # 0: it never took part
    rounds: tuple[int, ...]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What one client has spent under one statement."""

    client: str  # its pseudonym in the trace
    examples: int
    rounds: list[int]  # in which it took part
    after: list[float]  # epsilon spent up to and including each of them; an upper bound
    epsilon: float  # spent in all
    tight: bool  # by the accountant of the statement; otherwise by a faster one, which is never lower


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """All clients that took part equally often."""

    rounds: int
    clients: int
    low: float  # epsilon of the one that spent least
    high: float


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger of one run under one statement, without saying who took part when."""

    defence: dict[str, Any]  # the run's, as everywhere in the result
    seed: int
    stated_by: str  # the name of the defence that states it
    unit: str  # record or client
    delta: float
    against: str
    stated: float  # epsilon of the whole run, for the busiest client
    rounds: int  # recorded so far
    clients: int
    worst: float  # epsilon of the client that has spent most
    worst_rounds: int  # how often it took part
    median: float
    least: float
    groups: list[Group]
    limit: float | None = None  # the plan's budget for this unit, if the run is the deployed one
    left: float | None = None  # of it, for the client that has spent most; below zero if it is exceeded


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One statement with the account of every client."""

    spending: Spending
    accounts: list[Account]


def accounts(defence: Defence, promise: Promise, training: Training, present: Sequence[TookPart]) -> list[Account]:
    """What each client has spent under the promise of a defence that states an epsilon."""
    assert promise.epsilon is not None and promise.delta is not None
    # Nobody can have spent more than is stated for the busiest client that is protected least.
    most, delta = promise.epsilon, promise.delta
    kinds = sorted({(one.examples, len(one.rounds)) for one in present if one.rounds})
    longest = {examples: max(n for size, n in kinds if size == examples) for examples, _ in kinds}
    course: dict[int, list[float]] = {}
    for examples, count in longest.items():
        found = defence.spent(training, examples, range(1, count + 1), delta, tight=False)
        course[examples] = [most] * count if found is None else [min(most, epsilon) for epsilon in found]
    tight: dict[tuple[int, int], float] = {}
    for examples, count in sorted(kinds, key=lambda kind: -course[kind[0]][kind[1] - 1])[:_MOST_TIGHT]:
        found = defence.spent(training, examples, [count], delta, tight=True)
        tight[examples, count] = most if found is None else min(most, found[-1])
    result = []
    for one in present:
        count = len(one.rounds)
        spent = course[one.examples][:count] if count else []
        exact = tight.get((one.examples, count))
        if exact is not None:
            spent = [min(epsilon, exact) for epsilon in spent[:-1]] + [min(spent[-1], exact)]
        result.append(
            Account(
                client=one.client,
                examples=one.examples,
                rounds=list(one.rounds),
                after=spent,
                epsilon=spent[-1] if spent else 0.0,
                tight=exact is not None or not count,
            )
        )
    return result


def spending(
    named: dict[str, Any],
    seed: int,
    promise: Promise,
    given: Sequence[Account],
    rounds: int,
    limits: Mapping[str, float],
) -> Spending:
    """Sum the accounts up; `limits` are the plan's budgets by unit, and empty where the run is not deployed."""
    assert promise.epsilon is not None and promise.delta is not None and promise.unit is not None
    spent = [one.epsilon for one in given] or [0.0]
    worst = max(given, key=lambda one: (one.epsilon, len(one.rounds)), default=None)
    by_rounds: dict[int, list[float]] = {}
    for one in given:
        by_rounds.setdefault(len(one.rounds), []).append(one.epsilon)
    # What holds for a client holds for each of its records.
    limit = limits.get(promise.unit, limits.get("record"))
    return Spending(
        defence=named,
        seed=seed,
        stated_by=promise.defence,
        unit=promise.unit,
        delta=promise.delta,
        against=promise.against,
        stated=promise.epsilon,
        rounds=rounds,
        clients=len(given),
        worst=max(spent),
        worst_rounds=len(worst.rounds) if worst else 0,
        median=statistics.median(spent),
        least=min(spent),
        groups=[
            Group(rounds=count, clients=len(all_of), low=min(all_of), high=max(all_of))
            for count, all_of in sorted(by_rounds.items())
        ],
        limit=limit,
        left=None if limit is None else limit - max(spent),
    )


def ledger_of(
    named: dict[str, Any],
    seed: int,
    defences: Sequence[Defence],
    given: Sequence[Promise],
    training: Training,
    present: Sequence[TookPart],
    rounds: int,
    limits: Mapping[str, float],
) -> list[Ledger]:
    """One ledger for each of the defences that states an epsilon."""
    found = []
    for defence, promise in zip(defences, given, strict=True):
        if promise.epsilon is None:
            continue
        all_of = accounts(defence, promise, training, present)
        found.append(Ledger(spending=spending(named, seed, promise, all_of, rounds, limits), accounts=all_of))
    return found
