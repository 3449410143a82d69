"""Noise on what stands for words, during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.activation_hooks import touched
from fedleak.federation.hooks import Defence, Loss
from fedleak.lazy import torch

__all__ = ["EmbeddingNoise"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingNoise(Defence):
    """Add Gaussian noise to the embedding's output in local training (Yuan et al., 2021, VI-A, Table VII)."""

    name: ClassVar[str] = "embedding-noise"
    summary: ClassVar[str] = "Adds Gaussian noise to the word or character embeddings during local training."
    places: ClassVar[tuple[str, ...]] = ("embedding",)
    no_epsilon: ClassVar[str] = (
        "the noise is not calibrated to what a record can change, and later layers still learn from the record"
    )

    sigma: Annotated[
        float, Meta(gt=0, description="standard deviation of the noise; the paper tries 0.01, 0.001 and 0.0001")
    ]

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """Fresh noise in every step."""

        def blur(values: torch.Tensor) -> torch.Tensor:
            drawn = np.stack([rng.standard_normal(values.shape[1:], dtype=np.float32) for rng in rngs])
            return values + torch.from_numpy(drawn).mul_(self.sigma)

        return touched(loss, "embedding", blur)
