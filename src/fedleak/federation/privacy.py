"""Differential privacy: what a defence states about a run, and the accountant behind it.

A statement says who is protected (a record, or everything a client holds), against whom, and how well: the epsilon of
(epsilon, delta)-differential privacy (Dwork and Roth, 2014), for a round in which a client takes part and for the
whole run. Only what was really done counts: how clients and examples were sampled, and in how many rounds.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from fedleak.errors import PlanError
from fedleak.lazy import scipy
from fedleak.plan.plan import FederationPlan

__all__ = [
    "Unit",
    "Statement",
    "Training",
    "training",
    "default_delta",
    "gaussian",
    "poisson",
    "without_replacement",
]

# Whole orders only: the sums for others converge slowly, or not at all, where batches are large.
_ORDERS = (*range(2, 65), 72, 80, 96, 128, 192, 256, 512, 1024)

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
    adjacency: str = ""  # which two runs cannot be told apart
    against: str = ""  # who cannot tell
    seen: Literal["updates", "model"] = "updates"  # what they see at most
    how: str  # the mechanism and its accounting in words, or why there is none

    @staticmethod
    def none(defence: str, why: str) -> Statement:
        """No epsilon can be stated."""
        return Statement(defence=defence, how=f"no epsilon can be stated for '{defence}': {why}")


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
    )


def default_delta(count: int) -> float:
    """Well below 1/count: with delta = 1/count, publishing the data of one user or record would be allowed.

    >>> default_delta(1000) < 1 / 1000
    True
    """
    return min(0.5, float(count**-1.1))


def gaussian(multiplier: float, steps: int, delta: float) -> float:
    """Epsilon of the Gaussian mechanism, exactly (Balle and Wang, 2018, theorem 8).

    `multiplier` is the noise's standard deviation in units of the sensitivity. Several steps are together one with
    noise smaller by the square root of their number (Dong et al., 2022, corollary 2).
    """
    if steps == 0:
        return 0.0
    mu = math.sqrt(steps) / multiplier

    def leak(epsilon: float) -> float:
        # In logarithms: e^epsilon alone overflows where there is next to no noise.
        inside = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
        return math.exp(inside) - math.exp(epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu)))

    # Concentrated differential privacy gives an upper end (Bun and Steinke, 2016, proposition 1.3).
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if leak(0.0) <= delta:
        return 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if leak(middle) > delta else (low, middle)
    return high


def poisson(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Epsilon where each step sees each record with a probability, independently (Mironov et al., 2019).

    One record more or less; Renyi accounting by the dp-accounting library.
    """
    if rate >= 1 or not steps:
        return gaussian(multiplier, steps, delta)
    library = _library()
    event = library.PoissonSampledDpEvent(rate, library.GaussianDpEvent(multiplier))
    found = _renyi(library, library.NeighboringRelation.ADD_OR_REMOVE_ONE, event, steps, delta)
    # Sampling never harms, and where it hardly helps the exact bound without it is lower than the accountant's.
    return min(found, gaussian(multiplier, steps, delta))


def without_replacement(selected: int, count: int, multiplier: float, steps: int, delta: float) -> float:
    """Epsilon where each step sees a fixed number of all, drawn at random (Wang, Balle and Kasiviswanathan, 2019).

    One exchanged for another; `multiplier` is in units of what that changes.
    """
    if selected >= count or not steps:
        return gaussian(multiplier, steps, delta)
    library = _library()
    event = library.SampledWithoutReplacementDpEvent(count, selected, library.GaussianDpEvent(multiplier))
    found = _renyi(library, library.NeighboringRelation.REPLACE_ONE, event, steps, delta)
    return min(found, gaussian(multiplier, steps, delta))


def _renyi(library: Any, relation: Any, event: Any, steps: int, delta: float) -> float:
    accountant = importlib.import_module("dp_accounting.rdp").RdpAccountant(_ORDERS, relation)
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))


def _library() -> Any:
    try:
        return importlib.import_module("dp_accounting")
    except ImportError:
        raise PlanError(
            "stating the epsilon of this defence needs the dp-accounting library; pip install 'fedleak[privacy]'"
        ) from None
