"""Who takes part in the audit of a recorded run: its clients, their users, and what is known of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedleak.core import Task, UserId
from fedleak.errors import DataError, TraceError
from fedleak.federation.loss import task_of
from fedleak.pipeline.recorded_secrets import RecordedSecrets, recorded_secrets
from fedleak.pipeline.silos import cast_silos
from fedleak.plan.code import is_code
from fedleak.plan.plan import Plan
from fedleak.population.background import sample
from fedleak.population.data_quality import Finding
from fedleak.population.datasets.own import Own, background_of, call
from fedleak.population.population import Examples, Population, User
from fedleak.record.owners import Owners, owners_of
from fedleak.record.recording import Recording

__all__ = ["RecordedUsers", "recorded_users", "read_owners", "require_clients"]

_NAMED = 5  # users or clients that a text names before it says how many more there are


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedUsers:
    """The clients of a recorded run that are audited."""

    users: tuple[User, ...]  # with their prior data; none where the adversary has none
    client_user: Mapping[str, UserId]  # of the clients that are kept; where there are `homes`, the silo of each
    homes: Mapping[UserId, str]  # where many users are behind one client and asked for: the silo of each
    silos: int  # clients with several users behind them
    background: Examples | None
    held: Population | None  # what clients trained on, where the auditor knows it
    secrets: RecordedSecrets | None  # what of it is secret, where the auditor says so
    task: Task | None  # None: there is no data to tell it from
    outputs: int  # that the data shows; the model may have more
    input_shape: tuple[int, ...]
    source: str
    findings: tuple[Finding, ...]

    @property
    def everyone(self) -> tuple[UserId, ...]:
        """Every user, candidates first."""
        owners = () if self.homes else self.client_user.values()
        return tuple(dict.fromkeys([*(user.id for user in self.users), *owners]))


def read_owners(plan: Plan, recording: Recording) -> Owners | None:
    """Whose client is whose, as the plan says; None where it does not."""
    named = plan.truth.owners
    if named is None:
        return None
    if not is_code(named):
        return owners_of(recording, named)
    told = call(named)
    if not isinstance(told, Mapping):
        raise DataError(f"{named} returned {type(told).__name__}; expected a dict {{client: user}}")
    return owners_of(recording, named, {str(client): users for client, users in told.items()})


def recorded_users(plan: Plan, recording: Recording, seed: int) -> RecordedUsers:
    """Bring owners, clients and prior data together, and say what does not fit."""
    findings: list[Finding] = []
    owners = read_owners(plan, recording)
    known = _prior(plan, seed)
    if known is not None:
        findings.extend(known.findings)
    held = None if plan.truth.data is None else Own(target=plan.truth.data).load(seed)
    secrets = recorded_secrets(plan, recording, owners)
    if secrets is not None:
        findings += secrets.findings
        if held is not None and held.records is not None:
            raise DataError(f"{plan.source} [truth]: both secrets and data say which secrets there are; remove one")
    background = None if plan.prior.background is None else background_of(plan.prior.background)
    if background is None and known is not None:
        background = known.background
    cast = cast_silos(plan, recording, owners, known, held, findings)
    known, held = cast.known, cast.held
    if cast.homes and known is not None and cast.owners is not None:
        client_user: Mapping[str, UserId] = cast.owners.users
        users = tuple(user for user in known.users if user.id in cast.homes)
    else:
        client_user, users = _cast(recording, cast.owners, known, findings)
    sample_of = _same_kind(known, held, background)
    data = next((one for one in (known, held) if one is not None), None)
    task, outputs, shape = _kind(data, background, sample_of, secrets)
    return RecordedUsers(
        users=users,
        client_user=client_user,
        homes=cast.homes,
        silos=cast.silos,
        background=None if background is None else sample(background, seed),
        held=held,
        secrets=secrets,
        task=task,
        outputs=outputs,
        input_shape=shape,
        source=_source(recording, data),
        findings=tuple(findings),
    )


def _prior(plan: Plan, seed: int) -> Population | None:
    if plan.prior.data is None and isinstance(plan.dataset, Own) and plan.dataset.target is None:
        return None
    return plan.dataset.load(seed)


def _cast(
    recording: Recording, owners: Owners | None, known: Population | None, findings: list[Finding]
) -> tuple[dict[str, UserId], tuple[User, ...]]:
    """The clients that are kept, with their users, and the users of whom there is prior data."""
    clients = recording.trace.header.clients
    if owners is None:
        if known is not None:
            text = "Prior data is not used: the plan does not say whose client is whose ([truth] owners)."
            findings.append(Finding(kind="owners", count=len(known.users), action="drop", text=text))
        return {client: UserId(client) for client in clients}, ()
    if owners.absent:
        text = f"{_several(owners.absent, 'owner')} never took part in the recorded run."
        findings.append(_finding(owners.absent, text))
    if known is None:
        # Nobody is asked about by name, so a client whose owner is not known is a user of its own.
        return {client: owners.users.get(client, UserId(client)) for client in clients}, ()
    if owners.unclaimed:
        text = f"{_several(owners.unclaimed, 'client')} without an owner: left out, with all updates."
        findings.append(_finding(owners.unclaimed, text))
    have = {str(user.id): user for user in known.users if len(user.examples)}
    kept = {client: user for client, user in owners.users.items() if str(user) in have}
    users = sorted({str(user) for user in kept.values()})
    if len(users) < 2:
        mine, theirs = _names(sorted({*map(str, owners.users.values())})), _names(sorted(have))
        raise DataError(
            f"{len(users)} of the users that own clients of {recording.folder} are in the prior data, and an audit "
            f"needs two: the owners are {mine or 'nobody'}; the prior data is of {theirs or 'nobody'}. Give them the "
            "same names"
        )
    strangers = sorted({str(user) for user in owners.users.values()} - set(have))
    if strangers:
        text = f"No prior data of {_several(strangers, 'user')}: their clients are left out."
        findings.append(_finding(strangers, text))
    idle = sorted(set(have) - set(users))
    if idle:
        # The chance level of a game counts its candidates, and takes each of them for somebody who took part.
        text = f"Prior data of {_several(idle, 'user')} without a client: not a candidate."
        findings.append(_finding(idle, text))
    return kept, tuple(have[user] for user in users)


def _finding(users: Sequence[str], text: str) -> Finding:
    return Finding(kind="owners", count=len(users), action="drop", text=text, users=[[str(user)] for user in users])


def _same_kind(known: Population | None, held: Population | None, background: Examples | None) -> Examples | None:
    """Any of the examples, after rejecting data of different shapes: all of it is for one model."""
    given: list[tuple[str, Examples]] = []
    for name, population in (("[prior] data", known), ("[truth] data", held)):
        if population is not None:
            given.append((name, next(user.examples for user in population.users if len(user.examples))))
    if background is not None:
        given.append(("[prior] background", background))
    for name, examples in given[1:]:
        first, other = given[0][1].x, examples.x
        if first.shape[1:] != other.shape[1:] or first.dtype.kind != other.dtype.kind:
            raise DataError(
                f"{name} has examples of shape {other.shape[1:]} and type {other.dtype}, {given[0][0]} of shape "
                f"{first.shape[1:]} and type {first.dtype}; one model reads both"
            )
    return given[0][1] if given else None


def _kind(
    data: Population | None, background: Examples | None, some: Examples | None, secrets: RecordedSecrets | None
) -> tuple[Task | None, int, tuple[int, ...]]:
    """The task, the outputs and the shape of an example, from whatever there is to tell them from."""
    task = data.task if data is not None else None if background is None else task_of(background)
    outputs = data.outputs if data is not None else 1 if background is None else _outputs(background)
    shape = () if some is None else tuple(some.x.shape[1:])
    if secrets is None:
        return task, outputs, shape
    if task not in (None, Task.NEXT_TOKEN):
        raise DataError(f"[truth] secrets: a language model can memorise them, but the data is to {task.value}")
    length = secrets.form.longest + len(secrets.records.context)
    return Task.NEXT_TOKEN, max(outputs, len(secrets.records.characters)), shape or (length,)


def _outputs(examples: Examples) -> int:
    task = task_of(examples)
    if task is Task.REGRESS:
        return 1
    column: Any = examples.x if task is Task.NEXT_TOKEN else examples.y
    return int(column.shape[1]) if task is Task.MULTI_LABEL else 1 + int(column.max())


def _source(recording: Recording, data: Population | None) -> str:
    origin = recording.origin
    by = " ".join(part for part in (origin.get("framework", "another framework"), origin.get("version", "")) if part)
    what = f"A run that {by} trained, recorded over {recording.trace.rounds} rounds."
    return what if data is None else f"{what} {data.source}"


def _several(names: Sequence[str], what: str) -> str:
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"


def _names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMED]) + rest


def require_clients(recording: Recording, client_user: Mapping[str, UserId]) -> None:
    """Reject a recorded run of which too little is left to ask about."""
    if len(set(client_user.values())) < 2:
        raise TraceError(
            f"{recording.folder} has {len(client_user)} client(s) that sent an update; an audit needs at least two. "
            "Record more rounds"
        )
