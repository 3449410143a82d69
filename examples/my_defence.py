"""A defence of your own, in one file: each device sends only the largest changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Params
from fedleak.federation.hooks import Defence

__all__ = ["Sparsify"]


@dataclass(frozen=True, kw_only=True)
class Sparsify(Defence):
    """Send the largest values of every layer and zero the rest; this gives no differential privacy."""

    name: ClassVar[str] = "sparsify"
    summary: ClassVar[str] = "each device sends only the largest changes to the model and leaves out the rest"

    keep: Annotated[float, Meta(gt=0, le=1, description="share of each layer's values that is sent")] = 0.1

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Act on the device, on one client's update, before it is sent."""
        return {layer: self.largest(values) for layer, values in update.items()}

    def largest(self, values: FloatArray) -> FloatArray:
        """Keep the values that are farthest from zero, at least one."""
        count = max(1, round(self.keep * values.size))
        kept = np.argpartition(-np.abs(values), count - 1)[:count]
        sent = np.zeros_like(values)
        sent[kept] = values[kept]
        return sent
