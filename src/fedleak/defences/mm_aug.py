"""Mixing in one kind of other users' data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw, required
from fedleak.defences.modes import modes_of
from fedleak.federation.hooks import Defence, PublicData
from fedleak.population.population import Examples

__all__ = ["ModeAugmentation"]


@dataclass(frozen=True, kw_only=True)
class ModeAugmentation(Defence):
    """Add background examples of one kind, another for each client (Orekondy et al., 2020, section 7.1).

    The background is divided by k-means; each client picks one of the clusters at random and takes all that it adds
    from there. A client then has a false taste of its own, instead of a bit of everybody's.
    """

    name: ClassVar[str] = "mm-aug"
    summary: ClassVar[str] = (
        "each client mixes public examples of one kind, which it picks at random, into its own data before training"
    )
    needs_background: ClassVar[bool] = True
    no_epsilon: ClassVar[str] = "one's own examples are still trained on as they are, among others"

    alpha: Annotated[
        float, Meta(gt=0, description="background examples added for each own example; the paper tries 0.5, 1 and 2")
    ] = 0.5
    modes: Annotated[
        int,
        Meta(
            ge=2,
            description="kinds that the background is divided into, no more than it has examples; the paper takes 100 "
            "to 500 of backgrounds of 59,000 to 3 million examples",
        ),
    ] = 100
    features: Annotated[
        Literal["raw", "model", "tf-idf"],
        Meta(
            description="what kinds are told apart by: the values themselves (pixels), what the shared model makes of "
            "an example before its last layer, trained on the background beforehand, or the words of a text weighted "
            "by how rare they are; by its nature (raw for numbers, tf-idf for words) if absent"
        ),
    ] | None = None  # fmt: skip

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        """Divide the background once for all clients: anybody can, since it is public; each draws from one kind."""
        background = required(public, self.name)
        mode = modes_of(background, self.modes, self.features)
        found = []
        for own, rng in zip(data, rngs, strict=True):
            kind = np.flatnonzero(mode == rng.choice(np.unique(mode)))
            count = max(1, round(self.alpha * len(own)))
            found.append(Examples.concat([own, draw(background.examples, count, rng, kind)]))
        return found
