"""Leaving out a part of what stands for words, during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.activation_hooks import touched
from fedleak.federation.hooks import Defence, Loss
from fedleak.federation.models.parts import drop

__all__ = ["EmbeddingDropout"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingDropout(Defence):
    """Drop a share of the embedding's outputs in local training (Yuan et al., 2021, VI-A, Table VIII)."""

    name: ClassVar[str] = "embedding-dropout"
    summary: ClassVar[str] = "Applies dropout to the word or character embeddings during local training."
    places: ClassVar[tuple[str, ...]] = ("embedding",)
    no_epsilon: ClassVar[str] = "dropout neither bounds sensitivity nor adds calibrated noise"

    rate: Annotated[
        float, Meta(gt=0, lt=1, description="share that is left out of each step; the paper tries 0.1 to 0.5")
    ] = 0.5

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """Another part in every step."""
        return touched(loss, "embedding", lambda values: drop(values, self.rate, rngs))
