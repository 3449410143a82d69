"""Checks across the tables of a plan, each of which is valid by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedleak import registry
from fedleak.core import flag_names
from fedleak.errors import PlanError
from fedleak.plan.plan import AuditPlan, PopulationPlan

if TYPE_CHECKING:
    from fedleak.attacks.attack import Attack
    from fedleak.games.game import Game
    from fedleak.views.adversaries import Adversary

__all__ = ["playable", "paired", "fitting", "refuse_multiple", "refuse_twice"]


def playable(attack: Attack, adversary: Adversary, source: str) -> None:
    """Reject an attack that its adversary cannot run, and say which adversaries can."""
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


def refuse_multiple(audit: Any, where: str) -> None:
    """Reject a target of 1 or more, which used to be a multiple of chance, and say what it is now."""
    target = audit.get("target") if isinstance(audit, Mapping) else None
    if isinstance(target, (int, float)) and not isinstance(target, bool) and target >= 1:
        raise PlanError(
            f"{where} target = {target:g}: the target is no longer a multiple of chance but an advantage between 0 (a "
            "score at chance) and 1 (the highest possible score); choose one, for instance 0.1, or remove the key"
        )


def paired(attacks: Sequence[Attack], adversaries: Sequence[Adversary], source: str) -> None:
    """Reject an attack that no adversary of the plan can run, and an adversary that can run none of its attacks."""
    for attack in attacks:
        if all(adversary.missing(attack) for adversary in adversaries):
            playable(attack, adversaries[0], source)
    for adversary in adversaries:
        if all(adversary.missing(attack) for attack in attacks):
            playable(attacks[0], adversary, source)


def fitting(games: Sequence[Game], population: PopulationPlan, audit: AuditPlan, source: str) -> None:
    """Reject a game without the prior it needs, or with a prior that gives the answer, and controls it lacks."""
    for game in games:
        if game.needs_prior and population.prior == "none":
            raise PlanError(
                f"{source} [population]: game '{game.name}' needs prior data, but prior = 'none'; choose another prior"
            )
        if game.needs_prior is False and population.prior != "none":
            raise PlanError(
                f"{source} [population]: prior = '{population.prior}' would give the adversary users' data "
                f"before game '{game.name}' asks for it; set prior = 'none'"
            )
        if getattr(game, "needs_members", False):
            if getattr(game, "unit", "record") == "record" and not population.held_out:
                raise PlanError(
                    f"{source} [population]: game '{game.name}' asks about records that no client trains on, too; set "
                    "held_out = 0.5"
                )
            if getattr(game, "unit", "record") == "user" and not population.outsiders:
                raise PlanError(
                    f"{source} [population]: game '{game.name}' asks about users who take no part, too; set "
                    "outsiders = N"
                )
        for control in audit.controls:
            if control not in ("iid", "fresh-data", *game.controls):
                raise PlanError(f"{source} [audit] controls: game '{game.name}' has no control '{control}'")


def refuse_twice(items: Sequence[object], where: str) -> None:
    """Reject a repeated entry: its results would overwrite each other."""
    for i, item in enumerate(items):
        if item in items[:i]:
            raise PlanError(f"{where}: entry {i + 1} repeats entry {items.index(item) + 1}")
