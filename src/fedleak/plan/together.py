"""Which defences can be combined, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedleak.errors import PlanError

if TYPE_CHECKING:
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Architecture, Model

__all__ = ["check_together", "require_places"]


def check_together(defences: Sequence[Defence], where: str, model: Architecture | None = None) -> None:
    """Refuse defences that undo each other, and one that acts on a part which the plan's model does not have.

    A defence says itself with whom it cannot be combined; only that it stands there twice is the same for all.
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
    """Refuse a defence that acts on a part which the model does not have: it would do nothing."""
    for place in defence.places:
        if place not in getattr(model, "places", ()):
            named = f"model '{model.name}'" if hasattr(model, "name") else "this model"
            raise PlanError(
                f"{where}defence '{defence.name}' acts on what leaves the {place} layer, and {named} has none that it "
                "could reach; choose another model (char-lm, word-lm and rating have every place)"
            )
