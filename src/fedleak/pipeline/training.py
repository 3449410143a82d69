"""Train one run of an audit: prepare its data and clients, train its rounds, and measure the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fedleak.core import Layout
from fedleak.errors import PlanError, did_you_mean
from fedleak.federation.cost import Clock, local_steps, matched_round
from fedleak.federation.federation import Client, defended, initial, make_clients, train
from fedleak.federation.hooks import hidden
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.utility import centralised, chance, evaluate, metric_of, nearest
from fedleak.pipeline.active_adversary import resumed, tamper
from fedleak.pipeline.runs import Run, Tick, facts
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared, prepare
from fedleak.score.assemble import Facts
from fedleak.score.defence_results import Promise
from fedleak.score.promises import promises
from fedleak.score.result import Finding
from fedleak.trace.evidence import Evidence
from fedleak.trace.files import write_atomic
from fedleak.trace.header import Header
from fedleak.trace.lock import locked
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter

__all__ = ["train_run", "fitting_model"]


def train_run(plan: Plan, run: Run, tick: Tick, workers: int = 1) -> None:
    """Train a federation and record it, resuming an earlier attempt."""
    # Wait, because workers of a killed command notice its end only after their current round.
    with locked(run.folder, patience=30):
        if facts(run) is not None:
            return
        started = time.monotonic()
        iid = run.variant.control == "iid"
        prepared = prepare(plan.dataset, plan.population, run.seed, iid=iid, inject=plan.inject)
        model = fitting_model(plan, prepared)
        trained = defended(model, run.variant.defences)
        everyone = make_clients(prepared.shares, run.seed, adaptive=run.variant.adaptive is not None)
        clients, tampering, told = tamper(plan, prepared, trained, everyone, run.seed)
        # Now, so that a missing accountant package is reported before training.
        promises(run.variant.defences, plan.federation, len(clients), [len(d.data) for d in clients], run.seed)
        users = [share.user for share in prepared.shares]
        Truth(
            users=tuple(user.id for user in users),
            client_user={client.id: client.user for client in everyone},
            attributes={user.id: dict(user.attributes) for user in users},
            traits=prepared.traits,
            secrets={user.id: user.secrets for user in users if user.secrets},
            decoys={user.id: user.decoys for user in users if user.decoys},
            evidence=Evidence.of(prepared) if any(game.name == "reconstruct" for game in plan.games) else None,
        ).save(run.folder / "truth")
        known = [share for share in prepared.shares if len(share.prior)]
        Prior(
            candidates=tuple(share.user.id for share in known),
            examples=tuple(share.prior for share in known),
            task=prepared.task,
            outputs=prepared.outputs,
            attributes=tuple(dict(share.user.attributes) for share in known),
            background=None if prepared.public is None else Background(examples=prepared.public, shows=prepared.shows),
            records=prepared.records,
            injected={d.id: prepared.injected[d.user] for d in clients if d.user in prepared.injected},
        ).save(run.folder / "prior")
        header = Header(
            fingerprint=run.fingerprint,
            rounds=plan.federation.rounds,
            task=prepared.task,
            model=plan.resolved["model"]["name"],
            layout=trained.layout,
            clients=tuple(client.id for client in clients),
            shadow=tuple(client.shadow for client in clients),
            settings=known_to_all(plan, prepared),
            defences=tuple(to_dict(defence) for defence in run.variant.defences),
            hidden=tuple(str(observation.name) for observation in hidden(run.variant.defences)),
            tampering=told,
            dtype=plan.record.dtype,
        )
        writer = TraceWriter.open(run.folder / "trace", header)
        if writer.weights is None:
            writer.start(initial(trained, run.seed))
        tick(writer.rounds)
        rounds = train(
            model,
            clients,
            plan.federation,
            run.variant.defences,
            prepared.background,
            run.seed,
            start=writer.rounds,
            weights=writer.weights,
            workers=workers,
            tampering=tampering,
            fresh_data=run.variant.control == "fresh-data",
            isolation=resumed(Trace.open(run.folder / "trace"), tampering) if writer.rounds else None,
        )
        clock = Clock()
        for done in clock.through(rounds):
            writer.append(done)
            tick(1)
        weights = writer.weights
        assert weights is not None
        trace = Trace.open(run.folder / "trace")
        matched = matched_round(trace.round, trace.size, [len(d.data) for d in clients], plan.federation)
        pooled = Examples.concat(part for share in prepared.shares for part in (share.private, share.prior))
        spelt = prepared.records is not None  # per character, where the audit is about records
        central = near = None
        if plan.federation.centralised and run.variant.label == "plain":
            near = nearest(pooled, prepared.test, prepared.task)
            best = centralised(model, pooled, plan.federation, run.seed)
            central = evaluate(model, best, prepared.test, prepared.task, spelt=spelt)
        metric = metric_of(prepared.task, spelt=spelt)
        found = Facts(
            fingerprint=run.fingerprint,
            source=prepared.source,
            users=len(users),
            private_examples=sum(len(share.private) for share in prepared.shares),
            prior_examples=sum(len(share.prior) for share in prepared.shares),
            test_examples=len(prepared.test),
            parameters=sum(layer.size for layer in model.layout),
            layers={layer.name: layer.size for layer in model.layout},
            utility_metric=metric.name,
            higher_is_better=metric.higher_is_better,
            utility=evaluate(trained, weights, prepared.test, prepared.task, spelt=spelt),
            chance=chance(pooled, prepared.test, prepared.task, spelt=spelt),
            centralised=central,
            knn=near,
            matched=evaluate(trained, trace.snapshot(matched), prepared.test, prepared.task, spelt=spelt)
            if matched < trace.rounds
            else None,
            local_steps=int(local_steps(trace.size, plan.federation).sum()),
            client_seconds=clock.per_update,
            promises=promised(plan, run, clients, trace),
            dropped=sum(1 for _ in trace.dropped()),
            seconds=time.monotonic() - started,
            findings=[Finding(kind=f.kind, count=f.count, action=f.action, text=f.text) for f in prepared.findings],
        )
        write_atomic(run.folder / "run.json", msgspec.json.encode(found))


def promised(plan: Plan, run: Run, clients: Sequence[Client], trace: Trace) -> list[Promise]:
    """The epsilons of a finished run's defences, for the data that clients actually trained on."""
    sizes = {index: len(client.data) for index, client in enumerate(clients)}
    sizes.update(zip(trace.client.tolist(), trace.size.tolist(), strict=True))
    taken = int(np.bincount(trace.client, minlength=1).max()) if len(trace.client) else 0
    return promises(
        run.variant.defences,
        plan.federation,
        len(clients),
        list(sizes.values()),
        run.seed,
        taken=max(1, taken),
        canaries=run.seed == plan.seeds[0] and run.variant.adaptive is None,
    )


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
    check_layers(plan, model.layout)
    return model


def known_to_all(plan: Plan, prepared: Prepared) -> dict[str, Any]:
    """What every client is sent before the first round: how to train, and how to build the model."""
    return {
        **plan.resolved["federation"],
        "architecture": plan.resolved["model"],
        "input_shape": list(prepared.input_shape),
        "outputs": outputs(plan, prepared),
    }


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
