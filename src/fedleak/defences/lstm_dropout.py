"""Leaving out a part of what recurrent layers hand on, during training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.defences.activation_hooks import touched
from fedleak.federation.hooks import Defence, Loss
from fedleak.federation.models.parts import drop

__all__ = ["LstmDropout"]


@dataclass(frozen=True, kw_only=True)
class LstmDropout(Defence):
    """Drop a share of each LSTM layer's outputs in local training, against overfitting (Yuan et al., 2021, Table X).

    It comes on top of a `dropout` of the model's own.
    """

    name: ClassVar[str] = "lstm-dropout"
    summary: ClassVar[str] = "Applies dropout to the outputs of the recurrent layers during local training."
    places: ClassVar[tuple[str, ...]] = ("lstm",)
    no_epsilon: ClassVar[str] = "dropout neither bounds sensitivity nor adds calibrated noise"

    rate: Annotated[
        float, Meta(gt=0, lt=1, description="share that is left out of each step; the paper tries 0.1 to 0.5")
    ] = 0.3

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """Another part in every step and layer."""
        return touched(loss, "lstm", lambda values: drop(values, self.rate, rngs))
