"""A defence of your own, in one file: each client sends only the signs of its update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import Defence, Params

__all__ = ["SignOnly"]


@dataclass(frozen=True, kw_only=True)
class SignOnly(Defence):
    """Send the signs of the update, all of one size (Bernstein et al., 2018); this gives no differential privacy."""

    name: ClassVar[str] = "sign-only"
    summary: ClassVar[str] = "Sends only the signs of an update, not its magnitudes (signSGD)."
    no_epsilon: ClassVar[str] = "signs are a deterministic function of the data, without noise"

    step: Annotated[float, Meta(gt=0, description="magnitude of every value that is sent")] = 0.001

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Act on the client, on one client's update, before it is sent."""
        return {layer: np.sign(values) * np.float32(self.step) for layer, values in update.items()}
