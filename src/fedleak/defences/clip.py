"""A bound on the size of an update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Params
from fedleak.federation.hooks import Defence

__all__ = ["Clip", "clipped"]


def clipped(update: Params, bound: float) -> Params:
    """Shorten an update whose norm over all layers exceeds the bound; its direction stays."""
    norm = float(np.sqrt(sum(np.square(values, dtype=np.float64).sum() for values in update.values())))
    if norm <= bound:
        return update
    # A little less than the bound, so that rounding to float32 cannot lift it above.
    factor = np.float32(bound / norm * (1 - 1e-6))
    return {layer: values * factor for layer, values in update.items()}


@dataclass(frozen=True, kw_only=True)
class Clip(Defence):
    """Bound the norm of every update (McMahan et al., 2018, section 3).

    By itself it hides only how far a client moved; noise is calibrated to its bound.
    """

    name: ClassVar[str] = "clip"
    summary: ClassVar[str] = "Clips each client's update to a fixed norm before it is sent."
    no_epsilon: ClassVar[str] = "it bounds the update but adds no noise; dp-fedavg does both"

    bound: Annotated[
        float, Meta(gt=0, description="largest norm of an update over all layers; Gradient-Leaks uses 50")
    ] = 50.0

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Shorten, if it is too long."""
        return clipped(update, self.bound)
