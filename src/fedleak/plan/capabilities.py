"""Capabilities that change the run: granted by a table of the plan to adversaries that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedleak import registry
from fedleak.core import Capability
from fedleak.errors import PlanError
from fedleak.plan.configure import configure
from fedleak.plan.plan import ImprintPlan, InjectPlan, IsolatePlan, JoinPlan, ProxyPlan

if TYPE_CHECKING:
    from fedleak.attacks.attack import Attack
    from fedleak.games.game import Game
    from fedleak.views.adversaries import Adversary

__all__ = ["granted"]

# Table -> the capability that it grants, its keys, what an attack needs, and what an adversary without it cannot do.
_TABLES: Mapping[str, tuple[Capability, type[Any], str, str]] = {
    "inject": (
        Capability.INJECT,
        InjectPlan,
        "injected records in the clients' data; grant them",
        "inject a record",
    ),
    "isolate": (Capability.ISOLATE, IsolatePlan, "an isolated victim; isolate one", "isolate a client"),
    "imprint": (
        Capability.CHOOSE_MODEL,
        ImprintPlan,
        "an imprint block in the model; insert one",
        "choose the model",
    ),
    "join": (Capability.JOIN, JoinPlan, "a client of the adversary in the federation; add it", "join as a client"),
}


def granted(
    top: Mapping[str, Any],
    attacks: Sequence[Attack],
    adversaries: Sequence[Adversary],
    games: Sequence[Game],
    source: str,
) -> dict[str, Any]:
    """The tables that grant capabilities, None where the plan does not have one.

    Reject a table that no adversary can use, and an attack that relies on a missing table.
    """
    found = {}
    marked = "trace" in top and "watermarks" in top.get("prior", {})
    for name, (power, cls, needed, ability) in _TABLES.items():
        if name in top:
            found[name] = configure(cls, top[name], f"{source} [{name}]")
            if not any(power in adversary.capabilities for adversary in adversaries):
                everyone = {other: registry.load("adversary", other) for other in registry.names("adversary")}
                able = [other for other, adversary in everyone.items() if power in adversary.capabilities]
                raise PlanError(
                    f"{source} [{name}]: no adversary of the plan can {ability}; name one in [audit] adversaries "
                    f"({', '.join(able)}), or remove the table"
                )
            continue
        found[name] = None
        if name == "inject" and marked:  # done before the recorded run began
            continue
        for attack in attacks:
            if power in attack.capabilities and name == "inject" and "trace" in top:
                raise PlanError(
                    f"{source}: attack '{attack.name}' follows records that were injected before the run; add "
                    "watermarks to [prior], a CSV file with the columns client and watermark, or remove the attack"
                )
            if power in attack.capabilities:
                raise PlanError(
                    f"{source}: attack '{attack.name}' needs {needed} with a table [{name}] (an empty one will do)"
                )
    if found["join"] is not None:
        other = next((game.name for game in games if not game.allows_join), None)
        if other is not None:
            raise PlanError(
                f"{source} [join]: the adversary's client belongs to no user, so game '{other}' cannot ask about it; "
                "remove the game, or the table"
            )
    found["proxy"] = _proxy(top, attacks, games, source)
    isolate = found["isolate"]
    if isolate is not None and isolate.user is not None and isolate.victims != 1:
        raise PlanError(
            f"{source} [isolate]: user = '{isolate.user}' names one victim, but victims = {isolate.victims}"
        )
    return found


def _proxy(top: Mapping[str, Any], attacks: Sequence[Attack], games: Sequence[Game], source: str) -> ProxyPlan | None:
    """The table [proxy], which grants no capability: whoever runs shadow clients can run these."""
    if "proxy" not in top:
        for attack in attacks:
            if getattr(attack, "needs_proxies", False):
                raise PlanError(
                    f"{source}: attack '{attack.name}' learns from proxy clients in the federation; add a table "
                    "[proxy] with traits = [...], or remove the attack"
                )
        return None
    other = next((game.name for game in games if not getattr(game, "allows_proxies", False)), None)
    if other is not None:
        raise PlanError(
            f"{source} [proxy]: proxy clients belong to no user, so game '{other}' cannot ask about them; remove the "
            "game, or the table"
        )
    proxy = configure(ProxyPlan, top["proxy"], f"{source} [proxy]")
    for game in games:
        trait = getattr(game, "trait", None)
        if trait is not None and trait not in proxy.traits and any(getattr(a, "needs_proxies", False) for a in attacks):
            raise PlanError(
                f"{source} [proxy] traits: a game asks for '{trait}', but no proxy client has it; add it to traits"
            )
    return proxy
