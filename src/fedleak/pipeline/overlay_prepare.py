"""Prepare the audit of a recorded run: its users, its model, its shadow clients; truth and prior are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedleak.core import IntArray, Task, rng_for
from fedleak.errors import PlanError, TraceError, did_you_mean
from fedleak.pipeline.recorded_model import RecordedModel, recorded_model
from fedleak.pipeline.recorded_users import RecordedUsers, read_owners, recorded_users, require_clients
from fedleak.plan.plan import Plan
from fedleak.population.data_quality import Finding
from fedleak.population.population import User
from fedleak.record.recording import Recording
from fedleak.trace.evidence import Evidence
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth

__all__ = ["Overlay", "prepare_overlay", "shadow_rounds", "overlay_work", "recorded_findings", "check_fit"]

_FEWEST, _MOST = 4, 30  # rounds in which a shadow client trains


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Everything that the rounds are written from."""

    recording: Recording
    users: RecordedUsers
    built: RecordedModel
    clients: tuple[str, ...]  # pseudonyms, in an order that means nothing
    shadow: tuple[int, ...]  # by client: which candidate's data it trains; -1 for a recorded client
    turns: tuple[IntArray, ...]  # by candidate: the rounds in which its shadow client trains
    seed: int

    def shadow_client(self, candidate: int) -> int:
        """The index of the client that trains a candidate's data."""
        return self.shadow.index(candidate)


def overlay_work(plan: Plan) -> tuple[str, int]:
    """What preparing a recorded run will take, in words, and in units of progress."""
    recording = _opened(plan)
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


def check_fit(plan: Plan) -> None:
    """Raise the error that an audit would end with where owners, prior data or the model do not fit the run."""
    recording = _opened(plan)
    users = recorded_users(plan, recording, plan.seeds[0])
    require_clients(recording, users.client_user)
    _check_layers(plan, recorded_model(plan, recording, users))


def shadow_rounds(plan: Plan, recording: Recording) -> int:
    """In how many rounds each shadow client trains: about as often as a client takes part, within bounds."""
    assert plan.trace is not None
    there = recording.participations
    usual = int(np.median(there[there > 0])) if (there > 0).any() else 0
    wanted = plan.trace.shadow_rounds or min(max(usual, _FEWEST), _MOST)
    return min(wanted, len(recording.rounds_with_updates))


def prepare_overlay(plan: Plan, seed: int, folder: Path) -> Overlay:
    """Bring the recorded run, its owners, prior data and the model together, and save the truth and the prior."""
    ready = _prepared(plan, seed)
    _save_truth(plan, ready, folder / "truth")
    _save_prior(ready, folder / "prior")
    return ready


def _opened(plan: Plan) -> Recording:
    assert plan.trace is not None
    recording = Recording.open(plan.trace.path)
    if not recording.trace.rounds:
        raise TraceError(f"{recording.folder} holds no finished round; its server was stopped too early")
    if not recording.trace.header.clients:
        raise TraceError(
            f"{recording.folder} holds no update of any client in {recording.trace.rounds} rounds; "
            f"`fedleak trace check {recording.folder}` says what became of them"
        )
    return recording


def _prepared(plan: Plan, plan_seed: int) -> Overlay:
    recording = _opened(plan)
    users = recorded_users(plan, recording, plan_seed)
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
    return Overlay(
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


def _save_truth(plan: Plan, ready: Overlay, folder: Path) -> None:
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
    secrets = {user.id: user.secrets for user in own if user.secrets}
    decoys = {user.id: user.decoys for user in own if user.decoys}
    if users.secrets is not None:
        secrets, decoys = users.secrets.of_users(users.client_user)
    Truth(
        users=everyone,
        client_user=shadows if users.homes else {**users.client_user, **shadows},
        silos={client: str(silo) for client, silo in users.client_user.items()} if users.homes else {},
        homes=users.homes,
        attributes=about,
        secrets=secrets,
        decoys=decoys,
        evidence=evidence,
        seed=ready.seed,
    ).save(folder)


def _evidence(ready: Overlay, own: Sequence[User]) -> Evidence:
    """What clients trained on; users of the same data who are not in the run stand for everybody else."""
    held = ready.users.held
    assert held is not None
    present = {user.id for user in own}
    others = [user for user in held.users if user.id not in present]
    task, outputs = held.task, ready.built.signature.outputs

    def prior(users: Sequence[User], background: Background | None = None) -> Prior:
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


def _save_prior(ready: Overlay, folder: Path) -> None:
    users, outputs = ready.users, ready.built.signature.outputs
    public = users.background
    records = None if users.held is None else users.held.records
    Prior(
        candidates=tuple(user.id for user in users.users),
        examples=tuple(user.examples for user in users.users),
        task=users.task or Task.CLASSIFY,
        outputs=outputs,
        attributes=tuple(dict(user.attributes) for user in users.users),
        background=None if public is None else Background(examples=public, shows={}),
        records=records if users.secrets is None else users.secrets.public(outputs),
        injected={} if users.secrets is None else users.secrets.watermarks,
    ).save(folder)


def recorded_findings(recording: Recording) -> list[Finding]:
    """What the auditor must know of how the run was recorded."""
    trace = recording.trace
    found: list[Finding] = []

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
