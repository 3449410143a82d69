"""Mixing in one kind of other users' data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw_background, required
from fedleak.defences.modes import modes_of
from fedleak.federation.hooks import Defence, PublicData
from fedleak.population.population import Examples

__all__ = ["ModeAugmentation"]


@dataclass(frozen=True, kw_only=True)
class ModeAugmentation(Defence):
    """Add background examples of one mode (cluster), different for each client (Orekondy et al., 2020, section 7.1).

    The background is clustered with k-means; each client picks one of the clusters at random and takes all additional
    examples from it. A client then has a false bias of its own, instead of a mix of all users.
    """

    name: ClassVar[str] = "mm-aug"
    summary: ClassVar[str] = (
        "Mixes public examples of one randomly chosen mode (cluster) into each client's data before training."
    )
    needs_background: ClassVar[bool] = True
    no_epsilon: ClassVar[str] = "the client still trains on its own examples, unmodified"

    alpha: Annotated[
        float, Meta(gt=0, description="background examples added for each own example; the paper tries 0.5, 1 and 2")
    ] = 0.5
    modes: Annotated[
        int,
        Meta(
            ge=2,
            description="number of clusters of the background, at most its number of examples; the paper uses 100 to "
            "500 for backgrounds of 59,000 to 3 million examples",
        ),
    ] = 100
    features: Annotated[
        Literal["raw", "model", "tf-idf"],
        Meta(
            description="features for clustering: raw values (pixels), the penultimate layer of the shared model after "
            "training it on the background, or TF-IDF of the words; if absent, raw for numbers and tf-idf for words"
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
            found.append(Examples.concat([own, draw_background(background.examples, count, rng, kind)]))
        return found
