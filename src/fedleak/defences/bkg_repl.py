"""Replacing a client's data with other users' data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw_background, required
from fedleak.federation.hooks import Defence, PublicData
from fedleak.population.population import Examples

__all__ = ["BackgroundReplacement"]


@dataclass(frozen=True, kw_only=True)
class BackgroundReplacement(Defence):
    """Replace a share of the client's data by background examples (Orekondy et al., 2020, section 7.1)."""

    name: ClassVar[str] = "bkg-repl"
    summary: ClassVar[str] = "Replaces part of each client's data with public examples from other users."
    needs_background: ClassVar[bool] = True
    no_epsilon: ClassVar[str] = "the client still trains on its remaining examples, unmodified"

    alpha: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="share of a client's own examples that is replaced; the paper tries 0.25, 0.5, 0.75 and 1, "
            "at which a client trains on nothing of its own",
        ),
    ] = 0.5

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        """As many examples as before, so that the client trains as long and counts as much as before."""
        background = required(public, self.name).examples
        found = []
        for own, rng in zip(data, rngs, strict=True):
            count = max(1, round(self.alpha * len(own)))
            kept = np.sort(rng.permutation(len(own))[count:])
            found.append(Examples.concat([own.take(kept), draw_background(background, count, rng)]))
        return found
