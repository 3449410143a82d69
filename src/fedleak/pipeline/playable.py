"""Which attacks can be run on a trace folder, and what each of the others lacks; derived from what they declare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fedleak import registry
from fedleak.core import Capability, Observation, Task, counted, flag_names
from fedleak.pipeline.recorded_secrets import RecordedSecrets
from fedleak.pipeline.trace_facts import TraceFacts
from fedleak.plan.plan import Plan
from fedleak.plan.recorded_run import missing_secrets
from fedleak.plan.recorded_tables import PriorPlan, TruthPlan
from fedleak.population.population import Population
from fedleak.record.owners import Owners
from fedleak.views.adversaries import Adversary, everyone

__all__ = ["Known", "Playable", "playable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the auditor's plan gives beside the trace."""

    plan: Plan | None = None
    owners: Owners | None = None
    population: Population | None = None  # prior data
    secrets: RecordedSecrets | None = None
    held: Population | None = None  # what clients trained on


class Playable(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on this trace."""

    attack: str
    game: str
    adversaries: list[str]  # who can run it here
    missing: list[str]  # what it lacks, and how to get it; empty: it can be run


def playable(facts: TraceFacts, known: Known) -> list[Playable]:
    """Every registered attack, in the order of the registry."""
    found = []
    for name in registry.names("attack"):
        attack = registry.load("attack", name)
        game = _game(attack.game, known.plan)
        missing = [*_of_attack(attack, facts, known), *_of_game(game, facts, known)]
        among = known.plan.adversaries if known.plan else tuple(everyone())
        able = [adversary.name for adversary in among if not adversary.missing(attack)]
        if not able and known.plan is not None:
            missing.append(_no_adversary(attack, known.plan.adversaries))
        found.append(Playable(attack=name, game=attack.game, adversaries=[] if missing else able, missing=missing))
    return found


def _game(name: str, plan: Plan | None) -> Any:
    """The plan's game of this name, or one with default settings; the class where it has settings without any."""
    mine = next((game for game in plan.games if game.name == name), None) if plan else None
    if mine is not None:
        return mine
    cls = registry.load("game", name)
    try:
        return cls()
    except TypeError:
        return cls


def _of_attack(attack: Any, facts: TraceFacts, known: Known) -> list[str]:
    missing = [_unseen(one, facts) for one in Observation if one & attack.needs & ~facts.observations]
    marked = known.secrets is not None and bool(known.secrets.watermarks)
    if attack.capabilities is Capability.INJECT and not marked:
        missing.append(
            "the capability to inject a record, before the run: [prior] watermarks = a CSV file with the columns "
            "client and watermark, where the run had some"
        )
    elif attack.capabilities and attack.capabilities is not Capability.INJECT:
        missing.append(
            f"the capability to {flag_names(attack.capabilities)}: a recorded run is over; train one like it "
            "(fedleak simulate-like)"
        )
    layer = _layer(attack, facts, known.plan)
    if layer in facts.unrecorded and Observation.UPDATES in attack.needs:
        missing.append(f"updates of layer '{layer}', which were not recorded (layers = ...)")
    if known.population is not None and known.population.task not in attack.tasks:
        tasks = " or ".join(task.value for task in attack.tasks)
        missing.append(f"a model for {tasks}; the data is for {known.population.task.value}")
    elif known.plan is not None and not set(known.plan.model.tasks) & set(attack.tasks):
        tasks = " or ".join(task.value for task in attack.tasks)
        missing.append(f"a model for {tasks}; [model] is '{known.plan.model.name}'")
    return missing


def _unseen(one: Observation, facts: TraceFacts) -> str:
    if not facts.updates:
        return f"{flag_names(one)}: no client's update was recorded in any round"
    if facts.sums_only and one in Observation.UPDATES | Observation.LINKS:
        return f"{flag_names(one)}: only sums were recorded (secure aggregation, or sums = True)"
    if one is Observation.SELECTION:
        return f"selection: who took part was recorded in every {facts.every}th round only (every = {facts.every})"
    if one is Observation.SIZES:
        return "sizes: not every client told how many examples it trained on"
    return f"{flag_names(one)}: not recorded"


def _layer(attack: Any, facts: TraceFacts, plan: Plan | None) -> str | None:
    """The layer that an attack reads, if it reads one."""
    mine = next((one for one in plan.attacks if one.name == attack.name), None) if plan else None
    layer = getattr(mine or attack, "layer", None)
    return list(facts.layers)[-1] if layer == "last" else layer


def _of_game(game: Any, facts: TraceFacts, known: Known) -> list[str]:
    plan, missing = known.plan, []
    if facts.truth and facts.prior:  # trained here: the plan of that run has decided what there is
        return []
    if game.needs_owners and (plan is None or plan.truth.owners is None):
        missing.append(_owners(facts))
    if game.needs_prior and known.population is None:
        missing.append('prior data of the users: [prior] data = "module:callable", and [model] to train it')
    elif plan is None:
        missing.append("the model's code: [model] in a plan")
    if game.needs_prior is False and known.population is not None and not game.hides_prior:
        missing.append("a plan without prior data: with it, the adversary would have the answer")
    if getattr(game, "needs_members", False):
        missing.append("records that clients did and did not train on: train a run like it (fedleak simulate-like)")
    if game.needs_evidence and (plan is None or plan.truth.data is None):
        missing.append('the clients\' own data, to compare with: [truth] data = "module:callable"')
    for name in game.needs_data:
        missing += _secrets(known) if name == "records" else [] if _has(name, known) else [_DATA[name]]
    behind = known.owners.behind if known.owners is not None else {}
    if (
        behind
        and plan is not None
        and plan.truth.unit == "user"
        and (isinstance(game, type) or not game.behind_question)
    ):
        users = counted(len({user for users in behind.values() for user in users}), "user")
        missing.append(
            f'one user per client: {users} are behind {counted(len(behind), "client")}; set unit = "client" in '
            "[truth] to ask for clients"
        )
    return missing


_DATA = {
    "attributes": "attributes of the users: return a fedleak.ArrayDataset with attributes from [prior] data",
    "traits": "traits of examples: a [dataset] that declares them",
    "images": "images with one class each (channels, height, width)",
    "background": 'examples of other users: [prior] background = "module:callable"',
}


def _secrets(known: Known) -> list[str]:
    """What the plan does not say of the secrets."""
    if known.secrets is not None or (known.held is not None and known.held.records is not None):
        return []
    plan = known.plan
    if plan is None:
        return missing_secrets(TruthPlan(), PriorPlan())
    return missing_secrets(replace(plan.truth, data=None), plan.prior)


def _has(name: str, known: Known) -> bool:
    plan, data = known.plan, known.population
    if name == "background":
        return (plan is not None and plan.prior.background is not None) or (
            data is not None and data.background is not None
        )
    data = data or known.held
    if data is None:
        return False
    return {
        "attributes": any(user.attributes for user in data.users),
        "traits": bool(data.traits),
        "images": data.task is Task.CLASSIFY and all(user.examples.x.ndim == 4 for user in data.users),
    }[name]


def _owners(facts: TraceFacts) -> str:
    if facts.key:
        what = "partitions" if facts.partitions else "node ids"
        return f'owners: whose client is whose; [truth] owners = "key" takes the {what} for users'
    return "owners: whose client is whose; [truth] owners = a CSV file with the columns client and user"


def _no_adversary(attack: Any, adversaries: Sequence[Adversary]) -> str:
    lacking = "; ".join(f"{one.name} lacks {one.missing(attack)}" for one in adversaries)
    return f"an adversary that can run it ([audit] adversaries): {lacking}"
