"""Clients with many users behind them: asked for as clients, which stand for all their users, or for single users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedleak.core import UserId, counted
from fedleak.errors import PlanError
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.population.population import Examples, Population, User
from fedleak.record.owners import Owners, silos_of
from fedleak.record.recording import Recording

__all__ = ["Cast", "cast_silos"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Owners and data in the unit that a plan asks for."""

    owners: Owners | None
    known: Population | None  # prior data
    held: Population | None  # what clients trained on
    homes: Mapping[UserId, str]  # user -> silo, where users are asked for; `owners` then gives each client its silo
    silos: int  # clients with several users behind them


def cast_silos(
    plan: Plan,
    recording: Recording,
    owners: Owners | None,
    known: Population | None,
    held: Population | None,
    findings: list[Finding],
) -> Cast:
    """Pool the data of the users behind each client, or say which silo holds whose data.

    Where nobody has prior data, no user can be asked for, and clients are what is left.
    """
    if owners is None or not owners.behind:
        return Cast(owners=owners, known=known, held=held, homes={}, silos=0)
    silos = silos_of(recording, owners)
    count = len(set(silos.clients.values()))
    single = replace(owners, users={client: UserId(silo) for client, silo in silos.clients.items()}, behind={})
    users = f"{counted(len(silos.homes), 'user')} behind {counted(count, 'client')}"
    if plan.truth.unit == "user" and owners.unclaimed:
        text = f"{counted(len(owners.unclaimed), 'client')} without an owner: left out, with all updates."
        findings.append(Finding(kind="owners", count=len(owners.unclaimed), action="drop", text=text))
    if plan.truth.unit == "user" and known is not None:
        for game in plan.games:
            if not game.behind_question:
                raise PlanError(
                    f"{plan.source} [truth]: game '{game.name}' needs one user per client, but there are {users}; set "
                    'unit = "client" to ask for clients, or ask for users with the game match, between = "prior"'
                )
        have = {user.id for user in known.users if len(user.examples)}
        homes = {user: silo for user, silo in silos.homes.items() if user in have}
        _say_unknown(len(silos.homes) - len(homes), findings)
        text = f"{users[0].upper()}{users[1:]}; asked for users, with clients resampled and permuted."
        findings.append(Finding(kind="owners", count=count, action="keep", text=text))
        kept = {client: silo for client, silo in single.users.items() if str(silo) in homes.values()}
        return Cast(owners=replace(single, users=kept), known=known, held=held, homes=homes, silos=count)
    text = f"{users[0].upper()}{users[1:]}; asked for clients, each with the data of all its users."
    findings.append(Finding(kind="owners", count=count, action="keep", text=text))
    if known is not None:
        have = {user.id for user in known.users}
        _say_unknown(sum(user not in have for user in silos.homes), findings)
    return Cast(
        owners=single,
        known=_pooled(known, silos.homes),
        held=_pooled(held, silos.homes),
        homes={},
        silos=count,
    )


def _pooled(population: Population | None, homes: Mapping[UserId, str]) -> Population | None:
    """One user for each silo, with the examples of all; users of no silo are left out."""
    if population is None:
        return None
    parts: dict[str, list[Examples]] = {}
    for user in population.users:
        if user.id in homes and len(user.examples):
            parts.setdefault(homes[user.id], []).append(user.examples)
    pooled = tuple(User(UserId(silo), Examples.concat(part)) for silo, part in sorted(parts.items()))
    return replace(population, users=pooled)


def _say_unknown(count: int, findings: list[Finding]) -> None:
    if count:
        text = f"No prior data of {counted(count, 'user')}: only the others of their clients are known."
        findings.append(Finding(kind="owners", count=count, action="keep", text=text))
