"""Top-k sparsification: sending only the largest changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Params
from fedleak.federation.hooks import Defence

__all__ = ["Sparsify"]


@dataclass(frozen=True, kw_only=True)
class Sparsify(Defence):
    """Keep the largest changes of an update and send zeros for the rest (Shokri and Shmatikov, 2015; top-k).

    What is left out is lost: nothing is carried over to the next round, in which the client may not take part.
    """

    name: ClassVar[str] = "sparsify"
    summary: ClassVar[str] = "Sends only the largest values of each client's update (top-k sparsification)."
    no_epsilon: ClassVar[str] = "the largest changes are sent without noise"

    share: Annotated[
        float,
        Meta(gt=0, le=1, description="share of an update's values that is sent; 0.1 and 0.01 are common"),
    ] = 0.1

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Choose among the numbers of all layers together; of equal ones, the first."""
        flat = np.concatenate([np.abs(values) for values in update.values()])
        count = max(1, round(self.share * len(flat)))
        kept = np.zeros(len(flat), dtype=np.bool_)
        kept[np.argsort(-flat, kind="stable")[:count]] = True
        parts = np.split(kept, np.cumsum([len(values) for values in update.values()])[:-1])
        return {
            layer: np.where(part, values, np.float32(0))
            for (layer, values), part in zip(update.items(), parts, strict=True)
        }
