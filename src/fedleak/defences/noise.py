"""Gaussian noise on the update before it leaves the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Params
from fedleak.federation.hooks import Defence

__all__ = ["Noise"]


@dataclass(frozen=True, kw_only=True)
class Noise(Defence):
    """Add zero-centred Gaussian noise to every update (Orekondy et al., 2020, section 7.2).

    There is no clipping, so this gives no differential privacy and states no epsilon.
    """

    name: ClassVar[str] = "noise"
    summary: ClassVar[str] = "Adds Gaussian noise to each client's update before it is sent."

    no_epsilon: ClassVar[str] = (
        "without clipping the sensitivity is unbounded, so no amount of noise suffices; dp-fedavg clips"
    )

    sigma: Annotated[
        float,
        Meta(
            gt=0,
            description="standard deviation of the noise; the paper tries variances of 0.01 to 100, hence 0.1, 0.32, "
            "1, 3.2 and 10",
        ),
    ]
    relative: Annotated[
        bool, Meta(description="sigma is relative to each layer's root mean square instead of absolute")
    ] = False

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Draw the layers' noise in the order of the layers, so that the same client draws the same noise."""
        return {layer: values + self.draw(values, rng) for layer, values in update.items()}

    def draw(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Noise of the shape of one layer."""
        scale = (
            self.sigma * float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) if self.relative else self.sigma
        )
        return rng.standard_normal(values.shape, dtype=np.float32) * np.float32(scale)
