"""Which attack can be played by which adversary, as it follows from what both declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedleak.core import Sight
from fedleak.views.adversaries import Adversary

__all__ = ["Row", "matrix"]


@dataclass(frozen=True, slots=True)
class Row:
    """One attack against every adversary."""

    attack: str
    needs: Sight
    lacks: Mapping[str, Sight]  # adversary -> what it would need to see in addition; NONE: it can play the attack

    def players(self) -> tuple[str, ...]:
        """The adversaries who can play the attack."""
        return tuple(name for name, missing in self.lacks.items() if not missing)


def matrix(attacks: Mapping[str, Sight], adversaries: Iterable[Adversary]) -> tuple[Row, ...]:
    """Lay out attacks, by what they need to see, against adversaries.

    >>> from fedleak.views.adversaries import EAVESDROPPER, SERVER
    >>> [row.players() for row in matrix({"reid-knn": Sight.UPDATES}, [SERVER, EAVESDROPPER])]
    [('server',)]
    """
    adversaries = tuple(adversaries)
    return tuple(
        Row(name, needs, {adversary.name: adversary.lacks(needs) for adversary in adversaries})
        for name, needs in attacks.items()
    )
