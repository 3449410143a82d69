"""The server's side of a round: the updates that arrived become the mean by which the shared model moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, Params, is_buffers, rng_for
from fedleak.errors import PlanError
from fedleak.federation.hooks import Defence
from fedleak.federation.tampering import Isolation
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan

__all__ = ["Aggregated", "Aggregator"]


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What became of the updates of a round."""

    seen: Params  # layer -> (clients that arrived, size): as the server sees them
    aggregate: Params  # the weighted mean
    arrived: npt.NDArray[np.bool_]  # by client that sent something
    lost: str = ""  # why some did not arrive


class Aggregator:
    """Weighs the updates and adds them up, as the defences do it."""

    def __init__(self, settings: FederationPlan, defences: Sequence[Defence], isolation: Isolation, seed: int) -> None:
        self.settings, self.isolation, self.seed = settings, isolation, seed
        self.adder = next((defence for defence in defences if defence.overrides("on_aggregation")), None)
        if self.adder is not None and isolation.models:
            raise PlanError(f"a client cannot be isolated where '{self.adder.name}' shows nobody's update by itself")
        self.on_aggregate = [(n, d) for n, d in enumerate(defences) if d.overrides("on_aggregate")]

    def add_up(self, number: int, updates: Params, clients: IntArray, sizes: IntArray) -> Aggregated:
        """Move the models of isolated clients by what each sent, and average what the others sent."""
        together = np.array([int(client) not in self.isolation.models for client in clients], dtype=np.bool_)
        for row in np.flatnonzero(~together):
            self.isolation.move(int(clients[row]), {name: values[row] for name, values in updates.items()})
        shared = updates if together.all() else {name: values[together] for name, values in updates.items()}
        shares = self._shares(sizes[together])
        if self.adder is None:
            found = Aggregated(updates, _mean(shared, shares), np.ones(len(clients), dtype=np.bool_))
        else:
            added = self.adder.on_aggregation(shared, shares, rng_for(self.seed, "on_aggregation", number))
            found = Aggregated(added.seen, added.aggregate, added.arrived, f"'{self.adder.name}' lost it on the way")
            shares = self._shares(sizes[added.arrived])
        aggregate = found.aggregate
        for place, defence in self.on_aggregate:
            weights = {name: values for name, values in aggregate.items() if not is_buffers(name)}
            changed = defence.on_aggregate(weights, shares, rng_for(self.seed, "on_aggregate", place, number))
            aggregate = {**aggregate, **changed}
        return Aggregated(found.seen, aggregate, found.arrived, found.lost)

    def _shares(self, sizes: IntArray) -> FloatArray:
        """What each update counts in the mean."""
        weights = sizes if self.settings.weighting == "examples" else np.ones_like(sizes)
        return np.asarray(weights / max(1, weights.sum()), dtype=np.float32)


def _mean(updates: Params, shares: FloatArray) -> Params:
    """Weigh the updates; nobody left means no move."""
    weights = torch.from_numpy(shares)
    return {name: (weights @ torch.from_numpy(np.ascontiguousarray(rows))).numpy() for name, rows in updates.items()}
