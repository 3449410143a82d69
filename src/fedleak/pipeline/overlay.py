"""Audit a run that Fedleak did not train: the recorded updates, and beside them those of shadow clients.

The auditor trains each candidate's prior data on recorded models, and writes these updates beside the real ones with
the ordinary writer. Games, views, attacks and scores then work as on any other run. The shadow clients took no part:
the recorded models, means and selections are as they were.
"""

from __future__ import annotations

import numpy as np

from fedleak.core import FloatArray, Params, Task, UserId, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.engines.engine import Engine, engine_for
from fedleak.federation.federation import Round
from fedleak.pipeline.imitation_check import imitation_findings
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.overlay_prepare import Overlay, prepare_overlay, recorded_findings
from fedleak.pipeline.recorded_users import RecordedUsers
from fedleak.pipeline.runs import Run, digest
from fedleak.plan.content import content_digest
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.run_facts import RunFacts
from fedleak.trace.writer import TraceWriter

__all__ = ["overlay_run"]

_AT_ONCE = 50_000_000  # numbers in the updates that are trained together


def overlay_run(plan: Plan, run: Run, tick: Tick, workers: int = 1) -> None:
    """Write the run's folder from a recorded run, resuming an earlier attempt."""
    ready = prepare_overlay(plan, run.seed, run.folder)
    engine = None
    if ready.users.users:
        pool = Pool.of([user.examples for user in ready.users.users], [str(user.id) for user in ready.users.users])
        task = ready.users.task
        assert task is not None
        engine = engine_for(ready.built.model, task, plan.federation, pool, (), workers)
    try:
        lost = _record(plan, run, ready, engine, tick)
        _require_shadows(plan, run, ready)
        findings = [*recorded_findings(ready.recording), *ready.users.findings, *lost]
        if engine is not None and ready.recording.trace.header.holds_updates:
            with one_thread():
                findings += imitation_findings(plan, ready.recording, ready.users, ready.built, engine, ready.seed)
    finally:
        if engine is not None:
            engine.close()
    _facts(run, ready, findings).save(run.folder)


def header(plan: Plan, run: Run, ready: Overlay) -> Header:
    """What the trace says about the run as a whole; the code that the plan names is not in it."""
    recorded, built = ready.recording.trace.header, ready.built
    data = content_digest([(str(user.id), user.examples) for user in ready.users.users])
    weighting = recorded.settings.get("weighting")
    architecture = {key: value for key, value in plan.resolved["model"].items() if key != "target"}
    training = {key: value for key, value in plan.resolved["federation"].items() if key != "train"}
    sizes = ready.recording.trace.size
    return Header(
        fingerprint=digest([run.fingerprint, data, sorted(ready.users.client_user.items())]),
        rounds=max(1, ready.recording.trace.rounds),
        task=ready.users.task,
        model=plan.resolved["model"]["name"],
        layout=built.fit.layout,
        clients=ready.clients,
        shadow=ready.shadow,
        settings={
            **training,
            "rounds": ready.recording.trace.rounds,
            "weighting": weighting if weighting in ("examples", "equal") else "equal",
            "architecture": architecture,
            "input_shape": list(built.signature.input_shape),
            "outputs": built.signature.outputs,
        },
        # Where a recorder was not told how many examples there were, there are no sizes to see.
        hidden=() if len(sizes) and np.asarray(sizes).all() else ("SIZES",),
        dtype=recorded.dtype,
        holds_updates=recorded.holds_updates,
        origin=ready.recording.origin,
        unrecorded=built.fit.unrecorded,
        # An adversary without the capability is not told that others got something into the data.
        tampering=({"power": "inject"},) if ready.users.secrets and ready.users.secrets.watermarks else (),
        beside=True,
        every=recorded.every,
    )


def _record(plan: Plan, run: Run, ready: Overlay, engine: Engine | None, tick: Tick) -> list[Finding]:
    """Write the rounds that are missing."""
    trace, fit = ready.recording.trace, ready.built.fit
    writer = TraceWriter.open(run.folder / "trace", header(plan, run, ready))
    if writer.weights is None:
        writer.start(fit.model(trace.snapshot(0)))
    tick(writer.rounds)
    place = {name: index for index, name in enumerate(ready.clients)}
    clients, sizes = np.asarray(trace.client), np.asarray(trace.size)
    whole = trace.header.holds_updates
    columns = {layer.name: trace.updates(layer.name) for layer in trace.header.layout} if whole else {}
    dropped: dict[int, list[tuple[str, str]]] = {}
    for note in trace.dropped():
        dropped.setdefault(note.round, []).append((note.client, note.why))
    for number in range(writer.rounds + 1, trace.rounds + 1):
        span = trace.span(number)
        rows: list[tuple[int, int, Params | int]] = []  # client, size, and its update or the row of the recorded one
        for row in range(span.start, span.stop):
            name = trace.header.clients[int(clients[row])]
            if name in place:
                rows.append((place[name], int(sizes[row]), row))
        lost = list(dropped.get(number, []))
        if engine is not None and whole:
            made, diverged = _shadow_updates(ready, engine, number)
            rows += made
            lost += diverged
        order = rng_for(ready.seed, "overlay", "rows", number).permutation(len(rows)).tolist()
        rows = [rows[at] for at in order]
        written = writer.rows() if whole else None
        for _, _, update in rows:
            if written is not None:
                written.add(fit.row(columns, update) if isinstance(update, int) else update)
        writer.append(
            Round(
                number=number,
                clients=np.array([client for client, _, _ in rows], dtype=np.int64),
                sizes=np.array([size for _, size, _ in rows], dtype=np.int64),
                updates={},
                aggregate=fit.model(trace.aggregate(number)),
                weights=fit.model(trace.snapshot(number)),
                dropped=tuple(lost),
            ),
            rows=written,
        )
        tick(1)
    return _diverged(run, ready)


def _shadow_updates(
    ready: Overlay, engine: Engine, number: int
) -> tuple[list[tuple[int, int, Params | int]], list[tuple[str, str]]]:
    """What shadow clients would have sent in a round; an update that is not finite is dropped, as a server would."""
    mine = [candidate for candidate, turns in enumerate(ready.turns) if number in turns]
    start = ready.built.fit.model(ready.recording.trace.snapshot(number - 1))
    size = sum(layer.size for layer in ready.built.fit.layout)
    found: list[tuple[int, int, Params | int]] = []
    lost = []

    def rngs(stage: str, candidate: int) -> np.random.Generator:
        return rng_for(ready.seed, "overlay", stage, number, candidate)

    step = max(1, _AT_ONCE // size)
    for first in range(0, len(mine), step):
        part = mine[first : first + step]
        with one_thread():
            rows = engine.updates(start, part, rngs)
        for name in ready.built.fit.unrecorded:
            rows[name].zero_()
        for at, candidate in enumerate(part):
            update: dict[str, FloatArray] = {name: values[at].numpy() for name, values in rows.items()}
            client = ready.shadow_client(candidate)
            if all(np.isfinite(values).all() for values in update.values()):
                found.append((client, len(ready.users.users[candidate].examples), update))
            else:
                lost.append((ready.clients[client], _DIVERGED))
    return found, lost


_DIVERGED = "the training of a shadow client diverged"


def _diverged(run: Run, ready: Overlay) -> list[Finding]:
    count = sum(note.why == _DIVERGED for note in Trace.open(run.folder / "trace").dropped())
    if not count:
        return []
    text = (
        f"{count} updates of shadow clients are not finite: training on prior data diverged. Check lr, epochs and "
        "batch in [federation]: real clients did not diverge."
    )
    return [Finding(kind="imitation", count=count, action="warn", text=text)]


def _require_shadows(plan: Plan, run: Run, ready: Overlay) -> None:
    """Without a single update on prior data, no attack could learn what users' updates look like."""
    if max(ready.shadow, default=-1) >= 0 and not (np.asarray(Trace.open(run.folder / "trace").shadow) >= 0).any():
        raise PlanError(
            f"{plan.source} [federation]: training on prior data diverged in every round, so nothing can be learnt "
            "from it. Check lr, epochs and batch, or train: real clients did not diverge"
        )


def _facts(run: Run, ready: Overlay, findings: list[Finding]) -> RunFacts:
    trace, users = Trace.open(run.folder / "trace"), ready.users
    real = {
        client: int(size) for client, size in zip(trace.client, trace.size, strict=True) if ready.shadow[client] < 0
    }
    owners: dict[UserId, int] = {}
    for client, size in real.items():
        owners[users.client_user[ready.clients[client]]] = size
    return RunFacts(
        fingerprint=run.fingerprint,
        source=users.source,
        users=len(users.homes) or len(set(users.client_user.values())),
        silos=users.silos,
        private_examples=sum(owners.values()),
        prior_examples=sum(len(user.examples) for user in users.users),
        test_examples=0,
        parameters=sum(layer.size for layer in ready.built.fit.layout),
        layers={layer.name: layer.size for layer in ready.built.fit.layout},
        rounds=trace.rounds,
        clients=len(users.client_user),
        shadow_updates=int((np.asarray(trace.shadow) >= 0).sum()),
        origin=ready.recording.origin or {"framework": "unknown"},
        dropped=sum(note.why != _DIVERGED for note in trace.dropped()),
        findings=findings,
        data=digest(
            [ready.recording.identity, content_digest([(str(user.id), user.examples) for user in users.users])]
        ),
        task="" if users.task is None else users.task.value,
        offers=_offers(users),
    )


def _offers(users: RecordedUsers) -> list[str]:
    """What games can ask about besides the examples."""
    known = [*users.users, *(users.held.users if users.held is not None else ())]
    images = [user.examples.x.ndim == 4 for user in known]
    has = {
        "attributes": any(user.attributes for user in known),
        "traits": users.held is not None and bool(users.held.traits),
        "images": users.task is Task.CLASSIFY and bool(images) and all(images),
        "records": users.secrets is not None or (users.held is not None and users.held.records is not None),
        "background": users.background is not None,
    }
    return [name for name, there in has.items() if there]
