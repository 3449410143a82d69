"""The hooks at which defences (and, declared in the plan, tampering) act on a federation.

- on_data, once per device before the first round: what the device trains on
- on_model, once: the model that every device trains
- on_step, every local step: the gradients of the clients computed together
- on_update, every update, on the device, before it is sent
- on_channel, every round: what of the updates reaches the server, and in which form
- on_participation, every round: which of the selected devices take part
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedleak.core import Params
from fedleak.federation.model import Model, Tensors
from fedleak.population.population import Examples

__all__ = ["Defence"]


class Defence:
    """Base of every defence: each hook leaves things as they are; a defence overrides the ones it needs.

    A defence is a frozen dataclass of its settings. Randomness is passed in, one generator per device, so that a
    resumed run draws the same numbers.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence for the report: what the device or the server does differently
    needs_background: ClassVar[bool] = False

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        """Change what a device trains on."""
        return data

    def on_model(self, model: Model) -> Model:
        """Change the model that every device trains."""
        return model

    def on_step(self, gradients: Tensors, weights: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Change the gradients of one local step; the leading axis runs over the clients, one generator each."""
        return gradients

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Change one client's update on the device."""
        return update

    def on_channel(self, updates: Params, rng: np.random.Generator) -> Params:
        """Change what the server receives of a round: one row per client in, one row per client out."""
        return updates

    def on_participation(self, selected: Sequence[int], round_number: int, rng: np.random.Generator) -> Sequence[int]:
        """Change which of the selected devices (by index) take part."""
        return selected

    def overrides(self, hook: str) -> bool:
        """Whether this defence acts at a hook; the engine skips hooks that nobody uses."""
        return getattr(type(self), hook) is not getattr(Defence, hook)
