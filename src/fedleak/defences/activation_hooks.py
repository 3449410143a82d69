"""Acting on what flows through a model while it is trained."""

from __future__ import annotations

from collections.abc import Callable

from fedleak.federation.hooks import Loss
from fedleak.federation.model import ActivationHooks
from fedleak.lazy import torch

__all__ = ["touched"]


def touched(loss: Loss, place: str, act: Callable[[torch.Tensor], torch.Tensor]) -> Loss:
    """A loss for which something is done at a place of the model, before what later defences do there."""

    def changed(touches: ActivationHooks) -> torch.Tensor:
        after = touches.get(place)
        return loss({**touches, place: act if after is None else lambda values: after(act(values))})

    return changed
