"""What attacks, games and defences are called in a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fedleak.plan.configure import to_dict

__all__ = ["settings_key", "label", "described"]


def settings_key(attack: Any, game: Any, adversary: Any) -> str:
    """Names and settings of an attack, its game and its adversary as one string, unique for each combination."""
    return msgspec.json.encode([to_dict(attack), to_dict(game), adversary.name], order="deterministic").decode()


def label(component: Any, others: Sequence[Any]) -> str:
    """The name of an attack or a game; with the settings that differ where the plan has it more than once."""
    alike = [to_dict(other) for other in others if other.name == component.name]
    if len(alike) == 1:
        return str(component.name)
    mine = to_dict(component)
    differing = [key for key in mine if any(other[key] != mine[key] for other in alike)]
    return f"{component.name} ({', '.join(f'{key}={mine[key]}' for key in differing)})"


def described(defences: Sequence[Any]) -> dict[str, Any] | None:
    """A combination of defences as plain data: the first one's name and settings, others under `also`."""
    if not defences:
        return None
    first, *also = [to_dict(defence) for defence in defences]
    return {**first, "also": also} if also else first
