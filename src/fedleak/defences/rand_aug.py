"""Mixing other users' data into a client's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw_background, required
from fedleak.federation.hooks import Defence, PublicData
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

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        """Keep everything of one's own."""
        background = required(public, self.name).examples
        return [
            Examples.concat([own, draw_background(background, max(1, round(self.alpha * len(own))), rng)])
            for own, rng in zip(data, rngs, strict=True)
        ]
