"""Hooks on a model's activations during training."""

from __future__ import annotations

from collections.abc import Callable

from fedleak.federation.hooks import Loss
from fedleak.federation.model import ActivationHooks
from fedleak.lazy import torch

__all__ = ["touched"]


def touched(loss: Loss, place: str, act: Callable[[torch.Tensor], torch.Tensor]) -> Loss:
    """A loss with an operation at one hook point of the model, before those of later defences."""

    def changed(touches: ActivationHooks) -> torch.Tensor:
        after = touches.get(place)
        return loss({**touches, place: act if after is None else lambda values: after(act(values))})

    return changed
