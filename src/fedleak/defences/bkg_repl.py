"""Replacing a client's data with other users' data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.background import draw, required
from fedleak.federation.hooks import Defence
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

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        """As many examples as before, so that the client trains as long and counts as much as before."""
        count = max(1, round(self.alpha * len(data)))
        kept = np.sort(rng.permutation(len(data))[count:])
        return Examples.concat([data.take(kept), draw(required(background, self.name), count, rng)])
