"""What a plan is refused for although each of its tables is right by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedleak import registry
from fedleak.core import flag_names
from fedleak.errors import PlanError
from fedleak.plan.plan import AuditPlan, PopulationPlan

if TYPE_CHECKING:
    from fedleak.attacks.attack import Attack
    from fedleak.games.game import Game
    from fedleak.views.adversaries import Adversary

__all__ = ["playable", "paired", "fitting", "refuse_twice"]


def playable(attack: Attack, adversary: Adversary, source: str) -> None:
    """Refuse an attack that its adversary cannot play, and say who could."""
    lacking = adversary.missing(attack)
    if not lacking:
        return
    able = [name for name in registry.names("adversary") if not registry.load("adversary", name).missing(attack)]
    needed = " and ".join(
        [
            flag_names(attack.needs),
            *([f"the capability to {flag_names(attack.capabilities)}"] if attack.capabilities else []),
        ]
    )
    raise PlanError(
        f"{source} [audit]: attack '{attack.name}' needs {needed}; adversary '{adversary.name}' lacks "
        f"{lacking}. Choose one that has it: {', '.join(able) or 'none'} (fedleak list --matrix)"
    )


def paired(attacks: Sequence[Attack], adversaries: Sequence[Adversary], source: str) -> None:
    """Refuse an attack that no adversary of the plan can play, and an adversary who can play none of its attacks."""
    for attack in attacks:
        if all(adversary.missing(attack) for adversary in adversaries):
            playable(attack, adversaries[0], source)
    for adversary in adversaries:
        if all(adversary.missing(attack) for attack in attacks):
            playable(attacks[0], adversary, source)


def fitting(games: Sequence[Game], population: PopulationPlan, audit: AuditPlan, source: str) -> None:
    """Refuse a game that lacks the prior it needs or would be given away by it, and controls that it does not have."""
    for game in games:
        if game.needs_prior and population.prior == "none":
            raise PlanError(
                f"{source} [population]: game '{game.name}' needs prior data of users, and prior = 'none' gives none"
            )
        if game.needs_prior is False and population.prior != "none":
            raise PlanError(
                f"{source} [population]: prior = '{population.prior}' would hand data of users to the adversary "
                f"before game '{game.name}' asks for it; set prior = 'none'"
            )
        for control in audit.controls:
            if control not in ("iid", "fresh-data", *game.controls):
                raise PlanError(f"{source} [audit] controls: game '{game.name}' has no control '{control}'")


def refuse_twice(items: Sequence[object], where: str) -> None:
    """Refuse a repeated entry: its results would be written over each other."""
    for i, item in enumerate(items):
        if item in items[:i]:
            raise PlanError(f"{where}: entry {i + 1} repeats entry {items.index(item) + 1}")
