"""Checks across the tables of a plan, each of which is valid by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedleak import registry
from fedleak.core import Capability, flag_names
from fedleak.errors import PlanError
from fedleak.plan.plan import AuditPlan, IsolatePlan, PopulationPlan

if TYPE_CHECKING:
    from fedleak.attacks.attack import Attack
    from fedleak.federation.model import Architecture
    from fedleak.games.game import Game
    from fedleak.views.adversaries import Adversary

__all__ = ["playable", "paired", "fitting", "unmoved", "buildable", "refuse_multiple", "refuse_twice"]


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


def paired(
    attacks: Sequence[Attack], adversaries: Sequence[Adversary], players: Mapping[str, Sequence[str]], source: str
) -> None:
    """Reject an attack that no adversary of its game can run, and an adversary that can run no attack.

    `players` are the adversaries of a game, where the plan does not leave it to all of them.
    """
    among = {
        attack.game: [one for one in adversaries if one.name in players.get(attack.game, [one.name])]
        for attack in attacks
    }
    for attack in attacks:
        if all(adversary.missing(attack) for adversary in among[attack.game]):
            playable(attack, among[attack.game][0], source)
    for adversary in adversaries:
        theirs = [attack for attack in attacks if adversary in among[attack.game]]
        if not theirs:
            raise PlanError(
                f"{source} [audit] adversaries: '{adversary.name}' plays no game; remove it, or name it in a [[game]]"
            )
        if all(adversary.missing(attack) for attack in theirs):
            playable(theirs[0], adversary, source)


def buildable(attacks: Sequence[Attack], model: Architecture, isolate: IsolatePlan | None, source: str) -> None:
    """Reject an attack that cannot build a model of the user's own, and a discriminator that cannot be made of it."""
    target = getattr(model, "target", None)
    if target is None:
        return
    why = "a model of your own has the outputs that it has; choose a built-in model (fedleak list models)"
    if isolate is not None and isolate.sent == "discriminator":
        raise PlanError(f"{source} [isolate]: sent = 'discriminator' gives the model another output, but {why}")
    for attack in attacks:
        wanted = getattr(attack, "needs_model", None)
        if wanted == "built-in":
            raise PlanError(f"{source}: attack '{attack.name}' gives the model two more outputs, but {why}")
        if wanted is not None and not getattr(model, "importable", True):
            raise PlanError(
                f"{source}: attack '{attack.name}' builds the model in a process of its own, where one that was given "
                'as an object does not exist; name its code in [model] (name = "module:callable")'
            )
        if wanted is not None and not getattr(model, "rebuild", True):
            raise PlanError(
                f"{source}: attack '{attack.name}' cannot do without building the model, but [model] says rebuild = "
                "false; remove one of them"
            )


def fitting(
    games: Sequence[Game],
    population: PopulationPlan,
    audit: AuditPlan,
    source: str,
    *,
    stated: bool = True,
    seeds: int = 1,
) -> None:
    """Reject games that cannot share a federation, or lack the prior they need, and controls that none of them has.

    `stated`: the plan says which prior there is. Without a game that needs one, the default is hardly what was meant.
    """
    needing = [game.name for game in games if game.needs_prior]
    for game in games:
        if game.needs_prior and population.prior == "none":
            raise PlanError(
                f"{source} [population]: game '{game.name}' needs prior data, but prior = 'none'; choose another prior"
            )
        if game.needs_prior is False and population.prior != "none":
            hides = getattr(game, "hides_prior", False)
            if needing and not hides:
                why = getattr(game, "no_prior", "") or f"'{game.name}' would show these to an adversary without any"
                raise PlanError(
                    f"{source}: games '{needing[0]}' and '{game.name}' cannot share a federation: '{needing[0]}' needs "
                    f"prior data and shadow clients, but {why}; ask them in two plans"
                )
            if not (hides and (needing or stated)):
                raise PlanError(
                    f"{source} [population]: prior = '{population.prior}' would give the adversary users' data "
                    f"before game '{game.name}' asks for it; set prior = 'none'"
                )
        if getattr(game, "needs_members", False):
            _with_non_members(game, population, source)
    if "other-federation" in audit.controls and not (population.disjoint and seeds > 2):
        raise PlanError(
            f"{source} [audit] controls: 'other-federation' asks the run of another seed, of other users; set "
            "disjoint = true in [population] and seeds to at least three"
        )
    for control in audit.controls:
        if control not in ("iid", "fresh-data") and not any(control in game.controls for game in games):
            names = ", ".join(f"'{game.name}'" for game in games)
            raise PlanError(f"{source} [audit] controls: no game of this plan ({names}) has the control '{control}'")


def _with_non_members(game: Game, population: PopulationPlan, source: str) -> None:
    """Reject a game about membership if the plan draws nothing that is no member."""
    if (why := getattr(game, "needs_outsiders", "")) and not population.outsiders:
        raise PlanError(
            f"{source} [population]: game '{game.name}' needs users who take no part, because {why}; set outsiders = N"
        )
    if getattr(game, "unit", "") == "user" and not population.outsiders:
        raise PlanError(
            f"{source} [population]: game '{game.name}' asks about users who take no part, too; set outsiders = N"
        )
    if getattr(game, "unit", "") == "record" and not population.held_out:
        raise PlanError(
            f"{source} [population]: game '{game.name}' asks about records that no client trains on, too; set "
            "held_out = 0.5"
        )


def unmoved(games: Sequence[Game], attacks: Sequence[Attack], tables: Mapping[str, Any], source: str) -> None:
    """Reject a game that would be asked of a federation which an attack on another game tampers with."""
    for name, power in (("inject", Capability.INJECT), ("isolate", Capability.ISOLATE), ("join", Capability.JOIN)):
        if tables[name] is None:
            continue
        using = {attack.game for attack in attacks if power in attack.capabilities}
        for game in games:
            if using and game.name not in using:
                raise PlanError(
                    f"{source} [{name}]: games '{min(using)}' and '{game.name}' cannot share a federation: the table "
                    f"changes what is trained, for attacks on '{min(using)}' only; ask them in two plans"
                )


def refuse_twice(items: Sequence[object], where: str) -> None:
    """Reject a repeated entry: its results would overwrite each other."""
    for i, item in enumerate(items):
        if item in items[:i]:
            raise PlanError(f"{where}: entry {i + 1} repeats entry {items.index(item) + 1}")
