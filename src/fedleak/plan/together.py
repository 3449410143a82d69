"""Which defences can be combined, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedleak.errors import PlanError

__all__ = ["check_together"]


def check_together(defences: Sequence[Any], where: str, model: Any = None) -> None:
    """Reject defences that undo each other, and a defence on a layer that the plan's model does not have.

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
        lacking = [spot for spot in defence.places if spot not in getattr(model, "places", ())]
        if model is not None and lacking:
            raise PlanError(
                f"{where}: defence '{defence.name}' acts on the output of the {lacking[0]} layer, but model "
                f"'{model.name}' has none; choose another model (char-lm, word-lm and rating have both)"
            )
