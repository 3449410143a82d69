"""Mixing other users' data into a client's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw, required
from fedleak.federation.hooks import Defence
from fedleak.population.population import Examples

__all__ = ["RandomAugmentation"]


@dataclass(frozen=True, kw_only=True)
class RandomAugmentation(Defence):
    """Add background examples to the client's data, so that it blends into the crowd (Orekondy et al., 2020, 7.1)."""

    name: ClassVar[str] = "rand-aug"
    summary: ClassVar[str] = "Mixes random public examples from other users into each client's data before training."
    needs_background: ClassVar[bool] = True
    no_epsilon: ClassVar[str] = "the client still trains on its own examples, unmodified"

    alpha: Annotated[
        float, Meta(gt=0, description="background examples added for each own example; the paper tries 0.5, 1 and 2")
    ] = 1.0

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        """Keep everything of one's own."""
        return Examples.concat(
            [data, draw(required(background, self.name), max(1, round(self.alpha * len(data))), rng)]
        )
