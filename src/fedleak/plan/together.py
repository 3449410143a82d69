"""Which defences can be combined, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedleak.core import is_buffers
from fedleak.errors import PlanError

if TYPE_CHECKING:
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Architecture, Model

__all__ = ["check_together", "require_places", "require_bufferless"]


def check_together(defences: Sequence[Defence], where: str, model: Architecture | None = None) -> None:
    """Reject defences that undo each other, and a defence on a layer that the plan's model does not have.

    Each defence declares what it cannot be combined with; only the check for duplicates is common to all.
    """
    names = [defence.name for defence in defences]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise PlanError(f"{where}: defence '{name}' is listed twice; remove one of them")
    for place, defence in enumerate(defences):
        reason = defence.clashes(defences[:place], defences[place + 1 :])
        if reason:
            raise PlanError(f"{where}: defence '{defence.name}' cannot be combined like this: {reason}")
        if model is not None:
            require_places(defence, model, f"{where}: ")


def require_places(defence: Defence, model: Architecture | Model, where: str = "") -> None:
    """Reject a defence on a layer that the model does not have: it would do nothing."""
    for place in defence.places:
        if place not in getattr(model, "places", ()):
            named = f"model '{model.name}'" if hasattr(model, "name") else "this model"
            raise PlanError(
                f"{where}defence '{defence.name}' acts on the output of the {place} layer, but {named} has no such "
                "layer; choose another model (char-lm, word-lm and rating have both)"
            )


def require_bufferless(defence: Defence, model: Model) -> None:
    """Reject a defence whose promise the buffers of the model would break."""
    found = [layer.name for layer in model.layout if is_buffers(layer.name)]
    if found and defence.no_buffers:
        raise PlanError(
            f"defence '{defence.name}' cannot be used with a model that has '{found[0]}': {defence.no_buffers}. "
            "Use GroupNorm or LayerNorm, or another defence"
        )
