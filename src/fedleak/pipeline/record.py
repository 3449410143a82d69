"""Record one run: train its federation round by round into a trace, from where an earlier attempt stopped."""

from __future__ import annotations

from typing import Any

from fedleak.core import is_buffers
from fedleak.federation.cost import Clock
from fedleak.federation.federation import initial, train
from fedleak.federation.hooks import hidden
from fedleak.federation.monitor import Monitor
from fedleak.pipeline.active_adversary import resumed
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.prepare import PreparedRun, outputs
from fedleak.pipeline.runs import Run
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.prepare import Prepared
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter

__all__ = ["record_run"]


def record_run(plan: Plan, run: Run, ready: PreparedRun, tick: Tick, workers: int = 1) -> Clock:
    """Train the rounds that are missing and append each to the trace; how long the clients took is returned."""
    folder = run.folder / "trace"
    writer = TraceWriter.open(folder, header(plan, run, ready))
    if writer.weights is None:
        writer.start(initial(ready.model, ready.seed))
    tick(writer.rounds)
    monitor = None
    if ready.validation is not None:
        monitor, so_far = Monitor(ready.model, ready.validation, plan.federation), Trace.open(folder)
        for number in range(so_far.rounds + 1):
            monitor.see(so_far.snapshot(number))
    rounds = train(
        ready.model,
        ready.clients,
        plan.federation,
        run.variant.defences,
        ready.population.background,
        ready.seed,
        start=writer.rounds,
        weights=writer.weights,
        workers=workers,
        tampering=ready.tampering,
        fresh_data=run.variant.control == "fresh-data",
        isolation=resumed(Trace.open(folder), ready.tampering) if writer.rounds else None,
        monitor=monitor,
    )
    clock = Clock()
    for done in clock.through(rounds):
        writer.append(done)
        tick(1)
    if plan.federation.patience is not None:
        writer.close("the validation loss stopped decreasing" if writer.rounds < plan.federation.rounds else "")
    return clock


def header(plan: Plan, run: Run, ready: PreparedRun) -> Header:
    """What the trace says about the run as a whole."""
    return Header(
        fingerprint=run.fingerprint,
        # With early stopping nobody knows: the trace is closed when the run is over.
        rounds=plan.federation.rounds if plan.federation.patience is None else None,
        task=ready.population.task,
        model=plan.resolved["model"]["name"],
        layout=ready.model.layout,
        clients=tuple(client.id for client in ready.clients),
        shadow=tuple(client.shadow for client in ready.clients),
        settings=known_to_all(plan, ready.population),
        defences=tuple(to_dict(defence) for defence in run.variant.defences),
        hidden=tuple(str(observation.name) for observation in hidden(run.variant.defences)),
        tampering=ready.told,
        dtype=plan.record.dtype,
        buffers=tuple(layer.name for layer in ready.model.layout if is_buffers(layer.name)),
        mean_changed=any(defence.changes_mean for defence in run.variant.defences),
    )


def known_to_all(plan: Plan, prepared: Prepared) -> dict[str, Any]:
    """What every client is sent before the first round: how to train, and how to build the model."""
    return {
        **{key: value for key, value in plan.resolved["federation"].items() if key != "train"},
        "architecture": plan.resolved["model"],
        "input_shape": list(prepared.input_shape),
        "outputs": outputs(plan, prepared),
        **({} if plan.imprint is None else {"imprint": plan.resolved["imprint"]}),
    }
