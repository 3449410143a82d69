"""Differential privacy: what a defence states about a run.

A statement says who is protected (a record, or everything a client holds), against whom, and how well: the epsilon of
(epsilon, delta)-differential privacy (Dwork and Roth, 2014), for a round in which a client takes part and for the
whole run. Only what was really done counts: how clients and examples were sampled, and in how many rounds.

An epsilon says little by itself. A statement therefore names everything that it depends on: the unit and the adjacency,
delta, how clients and examples are sampled, what is treated as public, who has to be trusted, and what is composed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from fedleak.federation.accountants import default_delta
from fedleak.plan.plan import FederationPlan

__all__ = ["Unit", "Statement", "Training", "training"]

_MEANINGFUL = 10.0

Unit: TypeAlias = Literal["record", "client"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one defence states for one run, or why it states nothing.

    `epsilon` holds whatever an adversary knows about the selection of clients. `hidden_epsilon` is smaller and holds
    only against adversaries that do not know it: subsampling amplifies privacy as long as the selection is secret.
    """

    defence: str
    epsilon: float | None = None  # whole run
    hidden_epsilon: float | None = None  # whole run, while it is secret who took part; None where that does not help
    per_round: float | None = None  # a round in which the client takes part
    delta: float | None = None
    unit: Unit | None = None
    count: int | None = None  # n: how many of the unit there are, which delta is compared with
    adjacency: str = ""  # which two runs cannot be told apart
    against: str = ""  # who cannot tell
    seen: Literal["updates", "model"] = "updates"  # what they see at most
    trusted: str = ""  # who has to be trusted
    sampling: str = ""  # how clients or examples are drawn, as far as the accounting uses it
    public: str = ""  # what is not protected because everybody is assumed to know it
    composition: str = ""  # what is added up
    accountant: str = ""
    mechanism: str = ""  # which noise, and on what
    noise: float | None = None  # standard deviation in units of `clip`
    clip: float | None = None  # the bound on what the noise hides
    how: str  # the mechanism in words, or why there is none

    @staticmethod
    def none(defence: str, why: str) -> Statement:
        """No epsilon can be stated."""
        return Statement(defence=defence, how=f"no epsilon can be stated for '{defence}': {why}")

    @property
    def warning(self) -> str:
        """Why the epsilon guarantees little, if it does; a sentence for each reason."""
        said = []
        if self.delta is not None and self.count is not None and self.delta > default_delta(self.count):
            said.append(
                f"delta {self.delta:.1e} is not small against 1/n (n = {self.count} {self.unit}s; at most "
                f"{default_delta(self.count):.1e} would be), so the statement allows some {self.unit}s to be exposed "
                "entirely and the epsilon is weak"
            )
        if self.epsilon is not None and self.epsilon > _MEANINGFUL:
            said.append(f"an epsilon above {_MEANINGFUL:g} guarantees next to nothing")
        return "; ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What an accountant needs to know about a run."""

    rounds: int
    most: int  # rounds in which any one client takes part, at most
    clients: int
    selected: int  # in each round
    fresh: bool  # every round draws its clients again, whatever was drawn before
    equal: bool  # updates are averaged equally
    epochs: int
    batch: int
    sizes: tuple[int, ...]  # examples that each client trains on
    skips: bool = False  # updates that are not finite are left out, which everybody notices


class _Stating(Protocol):
    def most_rounds(self, rounds: int) -> int: ...

    def privacy(self, training: Training) -> Statement: ...


def training(
    defences: Sequence[_Stating],
    plan: FederationPlan,
    clients: int,
    examples: Sequence[int],
    *,
    taken: int | None = None,
) -> Training:
    """What an accountant needs to know about a run.

    `clients` are all that could be selected and `examples` what each of them trains on. `taken` is in how many rounds
    the busiest client took part, if the run is over: who is selected does not depend on anybody's data, so counting
    it afterwards gives nothing away and states the run as it was. Beforehand it could be all of them.
    """
    allowed = min([plan.rounds, *(defence.most_rounds(plan.rounds) for defence in defences)])
    return Training(
        rounds=plan.rounds,
        most=allowed if taken is None else min(allowed, taken),
        clients=clients,
        selected=max(1, int(plan.fraction * clients + 1e-9)),
        fresh=allowed == plan.rounds,
        equal=plan.weighting == "equal",
        epochs=plan.epochs,
        batch=plan.batch,
        sizes=tuple(examples),
        skips=plan.on_nan == "skip",
    )
