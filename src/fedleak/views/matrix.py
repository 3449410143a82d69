"""Which adversary can run which attack, derived from what both declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fedleak.core import flag_names
from fedleak.views.adversaries import Adversary, Declares

__all__ = ["MatrixRow", "matrix"]


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One attack against every adversary."""

    attack: str
    needs: str  # observations, and capabilities if any
    lacks: Mapping[str, str]  # adversary -> what it lacks; empty: it can run the attack

    def players(self) -> tuple[str, ...]:
        """The adversaries that can run the attack."""
        return tuple(name for name, missing in self.lacks.items() if not missing)


def matrix(attacks: Mapping[str, Declares], adversaries: Iterable[Adversary]) -> tuple[MatrixRow, ...]:
    """Compare the needs of attacks with the observations and capabilities of adversaries.

    >>> from fedleak import registry
    >>> from fedleak.views.adversaries import EAVESDROPPER, SERVER
    >>> [row.players() for row in matrix({"reid-knn": registry.load("attack", "reid-knn")}, [SERVER, EAVESDROPPER])]
    [('server',)]
    """
    adversaries = tuple(adversaries)
    return tuple(
        MatrixRow(name, needs(attack), {adversary.name: adversary.missing(attack) for adversary in adversaries})
        for name, attack in attacks.items()
    )


def needs(attack: Declares) -> str:
    """What an attack needs, in words."""
    return flag_names(attack.needs) + (
        f", the capability to {flag_names(attack.capabilities)}" if attack.capabilities else ""
    )
