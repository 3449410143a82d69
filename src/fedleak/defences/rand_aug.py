"""Mixing other people's data into one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.errors import DataError
from fedleak.federation.hooks import Defence
from fedleak.population.population import Examples

__all__ = ["RandomAugmentation"]


@dataclass(frozen=True, kw_only=True)
class RandomAugmentation(Defence):
    """Add background examples to the device's data, so that it blends into the crowd (Orekondy et al., 2020, 7.1)."""

    name: ClassVar[str] = "rand-aug"
    summary: ClassVar[str] = "each device mixes public examples of other people into its own data before training"
    needs_background: ClassVar[bool] = True

    alpha: Annotated[float, Meta(gt=0, description="background examples added for each own example")] = 1.0

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        """Draw with replacement only if the background is smaller than what is asked of it."""
        if background is None or len(background) == 0:
            raise DataError(
                "defence 'rand-aug' needs background data and this data set brings none; "
                "set some users aside with background_users = N in [population]"
            )
        count = max(1, round(self.alpha * len(data)))
        rows = rng.choice(len(background), size=count, replace=count > len(background))
        return Examples.concat([data, background.take(rows)])
