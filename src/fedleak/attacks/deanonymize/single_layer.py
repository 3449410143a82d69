"""Shared by the re-identification attacks: they use one layer of individual updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, Observation, Task

__all__ = ["SingleLayerAttack"]


@dataclass(frozen=True, kw_only=True)
class SingleLayerAttack:
    """Needs, game and layer of an attack on individual updates."""

    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_rounds

    layer: Annotated[str, Meta(description="layer of the update to use; `last` is the output layer")] = "last"
