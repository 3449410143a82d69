"""Stochastic quantisation: sending few bits per number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Params
from fedleak.federation.hooks import Defence

__all__ = ["Quantise"]


@dataclass(frozen=True, kw_only=True)
class Quantise(Defence):
    """Round each number at random to one of a few levels, so that it is right on average (Suresh et al., 2017)."""

    name: ClassVar[str] = "quantise"
    summary: ClassVar[str] = (
        "Rounds each client's update to a few levels, at random and without bias (stochastic quantisation)."
    )
    no_epsilon: ClassVar[str] = "the levels depend on the update itself, and rounding adds no calibrated noise"

    bits: Annotated[
        int, Meta(ge=1, le=16, description="bits per number; 1 sends only the least and the greatest of each layer")
    ] = 8

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Layer by layer: layers differ in scale, and a common one would round the small ones away."""
        return {layer: self.rounded(values, rng) for layer, values in update.items()}

    def rounded(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Levels lie evenly between the least and the greatest value; the nearer of two is the more likely."""
        low, high = float(values.min()), float(values.max())
        step = (high - low) / (2**self.bits - 1)
        if step == 0 or not np.isfinite(step):
            return values
        place = (values.astype(np.float64) - low) / step
        level = np.floor(place + rng.random(values.shape))
        return np.asarray(low + step * np.clip(level, 0, 2**self.bits - 1), dtype=np.float32)
