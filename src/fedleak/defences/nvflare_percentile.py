"""NVFlare's filter that shares only the largest changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Params
from fedleak.federation.hooks import Defence

__all__ = ["NvflarePercentilePrivacy"]


@dataclass(frozen=True, kw_only=True)
class NvflarePercentilePrivacy(Defence):
    """NVFlare's PercentilePrivacy: zeros for small changes, a bound on others (Shokri and Shmatikov, 2015)."""

    name: ClassVar[str] = "nvflare-percentile-privacy"
    summary: ClassVar[str] = (
        "Sends zeros for the smallest values of each client's update and bounds the others, as NVFlare's "
        "PercentilePrivacy does."
    )
    no_epsilon: ClassVar[str] = "it adds no noise, and which values it sends depends on the data"

    percentile: Annotated[
        float, Meta(ge=0, le=100, description="of an update's absolute values, below which zeros are sent")
    ] = 10.0
    gamma: Annotated[float, Meta(gt=0, description="largest absolute value that is sent, for each local step")] = 0.01
    steps: Annotated[
        int, Meta(ge=1, description="local steps that the client reports; 1 in NVFlare if it reports none")
    ] = 1

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Values of all layers are ranked together."""
        scaled = {layer: values / np.float32(self.steps) for layer, values in update.items()}
        cutoff = np.percentile(np.concatenate([np.abs(values) for values in scaled.values()]), self.percentile)
        return {
            layer: np.clip(np.where(np.abs(values) < cutoff, np.float32(0), values), -self.gamma, self.gamma)
            * np.float32(self.steps)
            for layer, values in scaled.items()
        }
