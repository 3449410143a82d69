"""Prepare one run: population, model and clients; truth and prior are saved before training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.core import Layout
from fedleak.errors import PlanError, did_you_mean
from fedleak.federation.federation import Client, make_clients
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.models.own import Own
from fedleak.federation.monitor import halved
from fedleak.federation.promises import promises
from fedleak.federation.tampering import Tampering
from fedleak.pipeline.active_adversary import imprinted, tamper
from fedleak.pipeline.runs import Run
from fedleak.plan.plan import Plan
from fedleak.plan.together import require_bufferless
from fedleak.population.background import sample
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared, prepare, salted_seed
from fedleak.sandbox.preflight import require_buildable
from fedleak.trace.evidence import Evidence
from fedleak.trace.members import MemberRecords
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth

__all__ = ["PreparedRun", "prepare_run", "lacks", "fitting_model", "outputs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that is ready to be trained."""

    population: Prepared
    model: Model
    clients: tuple[Client, ...]  # including the adversary's
    tampering: Tampering
    told: tuple[dict[str, Any], ...]  # the active attack, as the trace's header describes it
    seed: int  # of everything that happens in the run; unlike the plan's, it cannot be guessed
    validation: Examples | None = None  # what the server watches, where it does


def prepare_run(plan: Plan, run: Run) -> PreparedRun:
    """Draw the users, build the model, distribute the data, and save the truth and the prior."""
    population = prepare(
        plan.dataset,
        plan.population,
        run.seed,
        iid=run.variant.control == "iid",
        inject=plan.inject,
        auxiliary=_without_prior(plan),
    )
    validation = None
    if plan.federation.monitored:
        validation, test = halved(population.test)
        population = replace(population, test=test)
    model = fitting_model(plan, population)
    if isinstance(run.own_model, Own) and run.variant.label == "plain" and run.seed == plan.seeds[0]:
        signature = Signature(population.task, population.input_shape, outputs(plan, population))
        require_buildable(run.own_model, signature, model.layout, run.withheld)
    for defence in run.variant.defences:
        require_bufferless(defence, model)
    seed = salted_seed(population, run.seed)
    everyone = make_clients(population.shares, seed, adaptive=run.variant.adaptive is not None)
    clients, tampering, told = tamper(plan, population, model, everyone, seed)
    # Now, so that a missing accountant package is reported before training.
    promises(run.variant.defences, plan.federation, len(clients), [len(d.data) for d in clients], run.seed)
    _save_truth(plan, population, everyone, seed, run.folder / "truth")
    _save_prior(plan, population, clients, _public(plan, population, run), run.folder / "prior")
    return PreparedRun(
        population=population,
        model=model,
        clients=clients,
        tampering=tampering,
        told=told,
        seed=seed,
        validation=validation,
    )


def lacks(plan: Plan, run: Run) -> bool:
    """Whether a trained run holds too little for games that were added to its plan later.

    Its federation is the same, and what it lacks follows from the data: `prepare_run` stores it.
    """
    if plan.trace is not None:
        return False
    if any(game.needs_evidence for game in plan.games) and Truth.load(run.folder / "truth").evidence is None:
        return True
    if any(game.needs_members for game in plan.games) and Truth.load(run.folder / "truth").members is None:
        return True
    if plan.population.prior == "none" or not _without_prior(plan):
        return False
    public = Prior.load(run.folder / "prior").background
    # Public examples that were stored for their traits are not whole users.
    return public is None or (bool(public.shows) and public.examples.owner is None)


def _without_prior(plan: Plan) -> bool:
    """Whether the adversary of a game has no prior data, and so an auxiliary set at most."""
    return any(game.needs_prior is False for game in plan.games)


def _save_truth(plan: Plan, population: Prepared, clients: tuple[Client, ...], seed: int, folder: Path) -> None:
    users = [share.user for share in population.shares]
    Truth(
        users=tuple(user.id for user in users),
        client_user={client.id: client.user for client in clients},
        attributes={user.id: dict(user.attributes) for user in users},
        traits=population.traits,
        secrets={user.id: user.secrets for user in users if user.secrets},
        decoys={user.id: user.decoys for user in users if user.decoys},
        evidence=Evidence.of(population) if any(game.needs_evidence for game in plan.games) else None,
        members=MemberRecords.of(population) if any(game.needs_members for game in plan.games) else None,
        seed=seed,
    ).save(folder)


def _public(plan: Plan, population: Prepared, run: Run) -> Examples | None:
    """The public examples that an adversary has; only a defence-aware one is given those that a defence mixes in."""
    needed = plan.audit.adaptive and any(defence.needs_background for defence in run.variant.defences)
    if population.public is None and population.background is not None and needed:
        return sample(population.background, run.seed)
    return population.public


def _save_prior(
    plan: Plan, population: Prepared, clients: tuple[Client, ...], public: Examples | None, folder: Path
) -> None:
    known = [share for share in population.shares if len(share.prior)]
    Prior(
        candidates=tuple(share.user.id for share in known),
        examples=tuple(share.prior for share in known),
        task=population.task,
        outputs=population.outputs,
        attributes=tuple(dict(share.user.attributes) for share in known),
        background=None if public is None else Background(examples=public, shows=population.shows),
        records=population.records,
        injected={d.id: population.injected[d.user] for d in clients if d.user in population.injected},
        proxies=() if plan.proxy is None else plan.proxy.traits,
    ).save(folder)


def fitting_model(plan: Plan, prepared: Prepared) -> Model:
    """Build the model and reject, before training, what could only fail afterwards."""
    if prepared.task not in plan.model.tasks:
        raise PlanError(f"model '{plan.model.name}' cannot learn the task '{prepared.task.value}' of this data set")
    given = Input.WORDS if np.issubdtype(prepared.test.x.dtype, np.integer) else Input.NUMBERS
    if given not in plan.model.reads:
        raise PlanError(f"model '{plan.model.name}' cannot read {given.value}, which is what this data set provides")
    for attack in plan.attacks:
        if prepared.task not in attack.tasks:
            raise PlanError(f"attack '{attack.name}' does not apply to the task '{prepared.task.value}'; remove it")
    model: Model = plan.model.build(Signature(prepared.task, prepared.input_shape, outputs(plan, prepared)))
    if plan.imprint is not None:
        model = imprinted(plan, model, prepared)
    check_layers(plan, model.layout)
    return model


def outputs(plan: Plan, prepared: Prepared) -> int:
    """Outputs of the model: one more than the number of classes where a malicious client adds a fake class."""
    return prepared.outputs + (plan.join is not None)


def check_layers(plan: Plan, layout: Layout) -> None:
    """Reject an attack on a layer that the model does not have."""
    names = [layer.name for layer in layout]
    for attack in plan.attacks:
        wanted = getattr(attack, "layer", "last")
        if wanted != "last" and wanted not in names:
            raise PlanError(
                f"attack '{attack.name}': model '{plan.model.name}' has no layer '{wanted}'"
                f"{did_you_mean(wanted, ['last', *names])}"
            )
