"""Simulate clients on the server's own machine: train the shared model as a client would, with any data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedleak.attacks.shadow import apply_known_defences, model_of, settings
from fedleak.core import Params, rng_for
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.engines.engine import engine_for
from fedleak.population.population import Examples
from fedleak.views.view import View

__all__ = ["Imitation"]


class Imitation:
    """Clients that exist only on the adversary's machine; they take no part in the run and change nothing."""

    def __init__(self, view: View, clients: Sequence[Examples], seed: int) -> None:
        model = model_of(view)
        self.view, self.seed, self.count = view, seed, len(clients)
        pool = Pool.of(clients, [f"imitated {i}" for i in range(len(clients))])
        self.engine = engine_for(model, view.task, settings(view), pool, view.defences, 1, [True] * len(clients))

    def updates(self, round_number: int) -> Params:
        """What each of them would send in a round: layer -> (clients, size).

        Clients see their examples in an order of the round, not of the client, so that two with the same examples
        send the same.
        """

        def rngs(stage: str, _: int) -> np.random.Generator:
            return rng_for(self.seed, stage, round_number)

        with one_thread():
            rows = self.engine.updates(self.view.snapshot(round_number - 1), range(self.count), rngs)
        for name in self.view.unrecorded:  # nobody sees the updates of these layers
            rows[name].zero_()
        return apply_known_defences(self.view.defences, rows, rngs)
