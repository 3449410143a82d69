"""Audit a run that Fedleak did not train: the recorded updates, and beside them those of shadow clients.

The auditor trains each candidate's prior data on recorded models, and writes these updates beside the real ones with
the ordinary writer. Games, views, attacks and scores then work as on any other run. The shadow clients took no part:
the recorded models, means and selections are as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedleak.core import FloatArray, IntArray, Params, Task, UserId, rng_for
from fedleak.errors import PlanError, did_you_mean
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.engines.engine import Engine, engine_for
from fedleak.federation.federation import Round
from fedleak.pipeline.imitation_check import imitation_findings
from fedleak.pipeline.jobs import Tick
from fedleak.pipeline.recorded_model import RecordedModel, recorded_model
from fedleak.pipeline.recorded_users import RecordedUsers, read_owners, recorded_users, require_clients
from fedleak.pipeline.runs import Run, digest
from fedleak.plan.content import content_digest
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.record.recording import Recording
from fedleak.trace.evidence import Evidence
from fedleak.trace.header import Header
from fedleak.trace.prior import Background, Prior
from fedleak.trace.run_facts import RunFacts
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter

__all__ = ["overlay_run", "shadow_rounds", "overlay_work"]

_FEWEST, _MOST = 4, 30  # rounds in which a shadow client trains
_AT_ONCE = 50_000_000  # numbers in the updates that are trained together


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overlay:
    """Everything that the rounds are written from."""

    recording: Recording
    users: RecordedUsers
    built: RecordedModel
    clients: tuple[str, ...]  # pseudonyms, in an order that means nothing
    shadow: tuple[int, ...]  # by client: which candidate's data it trains; -1 for a recorded client
    turns: tuple[IntArray, ...]  # by candidate: the rounds in which its shadow client trains
    seed: int

    def shadow_client(self, candidate: int) -> int:
        return self.shadow.index(candidate)


def overlay_run(plan: Plan, run: Run, tick: Tick, workers: int = 1) -> None:
    """Write the run's folder from a recorded run, resuming an earlier attempt."""
    ready = _prepare(plan, run)
    _save_truth(plan, ready, run)
    _save_prior(ready, run)
    engine = None
    if ready.users.users:
        pool = Pool.of([user.examples for user in ready.users.users], [str(user.id) for user in ready.users.users])
        task = ready.users.task
        assert task is not None
        engine = engine_for(ready.built.model, task, plan.federation, pool, (), workers)
    try:
        lost = _record(plan, run, ready, engine, tick)
        findings = [*_recorded_findings(ready.recording), *ready.users.findings, *lost]
        if engine is not None and ready.recording.trace.header.holds_updates:
            with one_thread():
                findings += imitation_findings(plan, ready.recording, ready.users, ready.built, engine, ready.seed)
    finally:
        if engine is not None:
            engine.close()
    _facts(run, ready, findings).save(run.folder)


def overlay_work(plan: Plan) -> tuple[str, int]:
    """What preparing a recorded run will take, in words, and in units of progress."""
    assert plan.trace is not None
    recording = Recording.open(plan.trace.path)
    rounds = recording.trace.rounds
    owners = read_owners(plan, recording)
    users = 0 if owners is None or not _has_prior(plan) else owners.candidates(plan.truth.unit)
    if not users or not recording.trace.header.holds_updates:
        return f"Reading {rounds} recorded rounds", rounds
    each = shadow_rounds(plan, recording)
    return (
        f"Training {users} shadow clients in {each} of {rounds} recorded rounds each ({users * each} updates)",
        rounds,
    )


def _has_prior(plan: Plan) -> bool:
    return plan.prior.data is not None or "dataset" in plan.resolved


def shadow_rounds(plan: Plan, recording: Recording) -> int:
    """In how many rounds each shadow client trains: about as often as a client takes part, within bounds."""
    assert plan.trace is not None
    there = recording.participations
    usual = int(np.median(there[there > 0])) if (there > 0).any() else 0
    wanted = plan.trace.shadow_rounds or min(max(usual, _FEWEST), _MOST)
    return min(wanted, len(recording.rounds_with_updates))


def _prepare(plan: Plan, run: Run) -> _Overlay:
    assert plan.trace is not None
    recording = Recording.open(plan.trace.path)
    users = recorded_users(plan, recording, run.seed)
    require_clients(recording, users.client_user)
    built = recorded_model(plan, recording, users)
    _check_layers(plan, built)
    seed = recording.seed
    shadows = len(users.users) if recording.trace.header.holds_updates else 0
    rng = rng_for(seed, "overlay", "clients")
    real = [client for client in recording.trace.header.clients if client in users.client_user]
    taken = set(recording.trace.header.clients)
    fresh = [name for n in rng.integers(16**8, size=2 * shadows + 10).tolist() if (name := f"c-{n:08x}") not in taken]
    names = [*((client, -1) for client in real), *zip(dict.fromkeys(fresh), range(shadows), strict=False)]
    order = rng.permutation(len(names)).tolist()
    usable, each = recording.rounds_with_updates, shadow_rounds(plan, recording)
    return _Overlay(
        recording=recording,
        users=users,
        built=built,
        clients=tuple(names[place][0] for place in order),
        shadow=tuple(names[place][1] for place in order),
        turns=tuple(
            np.sort(rng_for(seed, "overlay", "rounds", candidate).choice(usable, each, replace=False))
            for candidate in range(shadows)
        ),
        seed=seed,
    )


def _check_layers(plan: Plan, built: RecordedModel) -> None:
    names = [layer.name for layer in built.fit.layout if layer.name not in built.fit.unrecorded]
    for attack in plan.attacks:
        wanted = getattr(attack, "layer", "last")
        if wanted != "last" and wanted not in names:
            why = "was not recorded" if wanted in built.fit.unrecorded else "is not in the model"
            raise PlanError(f"attack '{attack.name}': layer '{wanted}' {why}{did_you_mean(wanted, ['last', *names])}")


def _save_truth(plan: Plan, ready: _Overlay, run: Run) -> None:
    users, held = ready.users, ready.users.held
    about = {user.id: dict(user.attributes) for user in users.users}
    everyone = users.everyone
    own = [] if held is None else [user for user in held.users if user.id in set(everyone)]
    for user in own:
        about.setdefault(user.id, dict(user.attributes))
    evidence = None
    if held is not None and any(game.needs_evidence for game in plan.games):
        evidence = _evidence(ready, own)
    shadows = {
        name: users.users[candidate].id
        for name, candidate in zip(ready.clients, ready.shadow, strict=True)
        if candidate >= 0
    }
    Truth(
        users=everyone,
        client_user=shadows if users.homes else {**users.client_user, **shadows},
        silos={client: str(silo) for client, silo in users.client_user.items()} if users.homes else {},
        homes=users.homes,
        attributes=about,
        secrets={user.id: user.secrets for user in own if user.secrets},
        decoys={user.id: user.decoys for user in own if user.decoys},
        evidence=evidence,
        seed=ready.seed,
    ).save(run.folder / "truth")


def _evidence(ready: _Overlay, own: list[Any]) -> Evidence:
    """What clients trained on; users of the same data who are not in the run stand for everybody else."""
    held = ready.users.held
    assert held is not None
    present = {user.id for user in own}
    others = [user for user in held.users if user.id not in present]
    task, outputs = held.task, ready.built.signature.outputs

    def prior(users: list[Any], background: Background | None = None) -> Prior:
        return Prior(
            candidates=tuple(user.id for user in users),
            examples=tuple(user.examples for user in users),
            task=task,
            outputs=outputs,
            attributes=tuple(dict(user.attributes) for user in users),
            background=background,
        )

    public = held.test if held.test is not None else ready.users.background
    return Evidence(
        held=prior(own), bystanders=prior(others, None if public is None else Background(examples=public, shows={}))
    )


def _save_prior(ready: _Overlay, run: Run) -> None:
    users = ready.users
    public = users.background
    Prior(
        candidates=tuple(user.id for user in users.users),
        examples=tuple(user.examples for user in users.users),
        task=users.task or Task.CLASSIFY,
        outputs=ready.built.signature.outputs,
        attributes=tuple(dict(user.attributes) for user in users.users),
        background=None if public is None else Background(examples=public, shows={}),
        records=None if users.held is None else users.held.records,
    ).save(run.folder / "prior")


def header(plan: Plan, run: Run, ready: _Overlay) -> Header:
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
        beside=True,
        every=recorded.every,
    )


def _record(plan: Plan, run: Run, ready: _Overlay, engine: Engine | None, tick: Tick) -> list[Finding]:
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
    ready: _Overlay, engine: Engine, number: int
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


def _diverged(run: Run, ready: _Overlay) -> list[Finding]:
    from fedleak.trace.reader import Trace

    count = sum(note.why == _DIVERGED for note in Trace.open(run.folder / "trace").dropped())
    if not count:
        return []
    text = (
        f"{count} updates of shadow clients are not finite: training on prior data diverged. Check lr, epochs and "
        "batch in [federation]: real clients did not diverge."
    )
    return [Finding(kind="imitation", count=count, action="warn", text=text)]


def _recorded_findings(recording: Recording) -> list[Finding]:
    """What the auditor must know of how the run was recorded."""
    trace, found = recording.trace, []

    def add(count: int, text: str) -> None:
        found.append(Finding(kind="recorded", count=count, action="keep", text=text))

    if why := recording.unfinished:
        add(trace.rounds, f"{why[0].upper()}{why[1:]}. Its {trace.rounds} rounds are audited.")
    if not trace.header.holds_updates:
        add(trace.rounds, "Only sums were recorded, so nothing is asked about single updates.")
    silent = trace.rounds - len(recording.rounds_with_updates)
    if silent and trace.header.holds_updates:
        every = f" (every {trace.header.every} rounds)" if trace.header.every > 1 else ""
        add(silent, f"{silent} of {trace.rounds} rounds were recorded without updates{every}.")
    for kind, names in (
        ("Buffers", trace.header.buffers),
        ("Layers without recorded updates", trace.header.unrecorded),
    ):
        if names:
            add(len(names), f"{kind}: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}.")
    return found


def _facts(run: Run, ready: _Overlay, findings: list[Finding]) -> RunFacts:
    from fedleak.trace.reader import Trace

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
    )
