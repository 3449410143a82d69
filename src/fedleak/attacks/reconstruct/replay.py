"""What an active server trained during the run, repeated from what it received."""

from __future__ import annotations

import numpy as np

from fedleak.attacks.reconstruct.discriminator import architecture_of
from fedleak.core import FloatArray, IntArray, Params
from fedleak.federation.affiliated_server import AffiliatedServer
from fedleak.federation.tampering import Isolation
from fedleak.plan.configure import configure
from fedleak.plan.plan import IsolatePlan
from fedleak.population.population import Examples
from fedleak.views.view import View

__all__ = ["Replay"]


class Replay:
    """The discriminators that isolated clients were sent, and the generators that were trained against them."""

    def __init__(self, view: View, auxiliary: Examples) -> None:
        told = dict(view.isolation)
        seed = int(told.pop("seed"))
        plan = configure(IsolatePlan, told, "trace [isolate]")
        self.view = view
        self.server = AffiliatedServer(*architecture_of(view), plan, auxiliary, view.rounds, seed)
        self.isolation = Isolation(view.snapshot(0), sorted(view.isolated), self.server)
        self.done = dict.fromkeys(view.isolated, 0)  # the last round that is repeated
        self.sent: dict[int, dict[int, Params]] = {handle: {} for handle in view.isolated}

    def started_from(self, handle: int, round_number: int) -> Params:
        """The discriminator that a victim was sent in a round."""
        self._repeat(handle, round_number)
        return self.sent[handle][round_number]

    def draw(self, handle: int, categories: IntArray, rng: np.random.Generator) -> FloatArray:
        """Images of these categories by a victim's generator, after its last round."""
        self._repeat(handle, self.view.rounds + 1)
        return self.server.draw(handle, categories, rng)

    def _repeat(self, handle: int, until: int) -> None:
        """Repeat the rounds before `until`, as far as that is not done."""
        updates = self.view.updates
        for row in np.flatnonzero((updates.handle == handle) & (updates.round < until)).tolist():
            number = int(updates.round[row])
            if number <= self.done[handle]:
                continue
            self.sent[handle][number] = self.isolation.models[handle]
            self.isolation.move(handle, {layer.name: updates.layer(layer.name)[row] for layer in self.view.layout})
            self.done[handle] = number
        self.sent[handle].setdefault(until, self.isolation.models[handle])
