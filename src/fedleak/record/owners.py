"""Whose client is whose in a recorded run, as the auditor says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedleak.core import UserId
from fedleak.errors import TraceError
from fedleak.record.recording import Recording
from fedleak.trace.files import read_whole

__all__ = ["Owners", "Silos", "owners_of", "silos_of", "clients_by_name", "csv_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """The users behind the clients of a recorded run."""

    users: Mapping[str, UserId]  # by pseudonym, where each client has one user
    # By pseudonym, where some client has several: the users behind it, by name. `users` is then empty.
    behind: Mapping[str, tuple[UserId, ...]] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()  # clients of the run without an owner
    absent: tuple[str, ...] = ()  # names of clients that never took part

    def candidates(self, unit: str) -> int:
        """How many users, or clients with all users behind them, can be asked for."""
        if not self.behind:
            return len(set(self.users.values()))
        return len(
            {user for users in self.behind.values() for user in users} if unit == "user" else {*self.behind.values()}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Silos:
    """Clients with several users behind them; one that started again is the same silo."""

    clients: Mapping[str, str]  # pseudonym -> silo
    homes: Mapping[UserId, str]  # user -> silo

    def users(self, silo: str) -> tuple[UserId, ...]:
        """The users behind a silo, by name."""
        return tuple(sorted(user for user, home in self.homes.items() if home == silo))


def silos_of(recording: Recording, owners: Owners) -> Silos:
    """Name each silo by the partition of its data, or else by the pseudonym of its first client."""
    names: dict[tuple[UserId, ...], str] = {}
    first: dict[tuple[UserId, ...], str] = {}
    for client, users in owners.behind.items():
        known = recording.known.get(client)
        names.setdefault(users, known.partition if known is not None and known.partition is not None else client)
        first.setdefault(users, client)
    everyone = {str(user) for users in names for user in users}
    if len(set(names.values())) < len(names) or everyone & set(names.values()):
        names = first  # pseudonyms are unique, and nobody's name
    return Silos(
        clients={client: names[users] for client, users in owners.behind.items()},
        homes={user: names[users] for users in names for user in users},
    )


def owners_of(recording: Recording, owners: str, told: Mapping[str, Any] | None = None) -> Owners:
    """Read the owners: `key`, or a CSV file with the columns client and user; `told` are those that a callable gave.

    A client is named by its pseudonym, by its partition, or by its node. Several lines of one client, or a list of
    users from a callable, are several users behind it.
    """
    clients = recording.trace.header.clients
    if told is not None:
        rows = [
            (client, user)
            for client, users in told.items()
            for user in (users if isinstance(users, (list, tuple, set, frozenset)) else [users])
        ]
        return _resolve(recording, rows, owners)
    if owners != "key":
        path = Path(owners).expanduser()
        return _resolve(recording, _rows(path), str(path))
    if not recording.known:
        raise TraceError(
            f'owners = "key", but {recording.folder} has no key/ that says which client is which; give a CSV file with '
            "the columns client and user"
        )
    named = {client: recording.name(client) for client in clients}
    if clients and not any(client in recording.known for client in clients):
        raise TraceError(
            f"{recording.folder / 'key'} is the key of another run: it knows none of the {len(clients)} clients of "
            f"this one (first: '{clients[0]}'); put back the key that was recorded with it, or give a CSV file with "
            "the columns client and user"
        )
    return Owners(
        users={client: UserId(name) for client, name in named.items() if name is not None},
        unclaimed=tuple(client for client, name in named.items() if name is None),
    )


def _rows(path: Path) -> list[tuple[str, str]]:
    if not path.exists():
        raise TraceError(f'{path}: no such file; owners is "key", or a CSV file with the columns client and user')
    rows = csv_rows(path)
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["client", "user"]:
        raise TraceError(
            f"{path}: the first line must be client,user; it is {','.join(rows[0]) if rows else 'empty'!r}"
        )
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not all(cell.strip() for cell in row):
            raise TraceError(f"{path}, row {number}: expected a client and a user, got {','.join(row)!r:.60}")
    return [(row[0].strip(), row[1].strip()) for row in rows[1:]]


def csv_rows(path: Path) -> list[list[str]]:
    """The rows of a CSV file, empty ones left out."""
    try:
        text = read_whole(path).decode("utf-8-sig")
        return [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read as CSV: {error}") from error


def clients_by_name(recording: Recording) -> dict[str, list[str]]:
    """Name -> pseudonyms: a client is named by its pseudonym, or else by its partition, or else by its node.

    A partition may have several clients, because a restarted node is a new one.
    """
    ways: list[dict[str, list[str]]] = [{}, {}, {}]
    for client in recording.trace.header.clients:
        ways[0][client] = [client]
        if (known := recording.known.get(client)) is not None:
            if known.partition is not None:
                ways[1].setdefault(known.partition, []).append(client)
            ways[2].setdefault(known.node, []).append(client)
    return {**ways[2], **ways[1], **ways[0]}


def _resolve(recording: Recording, rows: Iterable[tuple[str, str]], where: str) -> Owners:
    """Find the clients that names mean."""
    clients, by_name = recording.trace.header.clients, clients_by_name(recording)
    found: dict[str, list[UserId]] = {}
    absent = []
    for name, user in rows:
        mine = by_name.get(str(name), [])
        if not mine:
            absent.append(str(name))
        for client in mine:
            if UserId(str(user)) not in found.setdefault(client, []):
                found[client].append(UserId(str(user)))
    strangers = [name for name in absent if name.startswith("c-") and name not in recording.known]
    if strangers or (absent and not found):
        what = strangers or absent
        raise TraceError(
            f"{where} names {len(what)} client(s) that {recording.folder} does not have (first: '{what[0]}'); is it "
            f"the file of another run? Its clients are {', '.join(clients[:3])}{', ...' if len(clients) > 3 else ''}"
        )
    several = any(len(users) > 1 for users in found.values())
    behind = {client: tuple(sorted(users)) for client, users in found.items()} if several else {}
    _require_one_home(behind, where)
    return Owners(
        users={} if several else {client: users[0] for client, users in found.items()},
        behind=behind,
        unclaimed=tuple(client for client in clients if client not in found),
        absent=tuple(absent),
    )


def _require_one_home(behind: Mapping[str, tuple[UserId, ...]], where: str) -> None:
    """Reject a user of two clients, unless both have the same users: then it is one that started again."""
    homes: dict[UserId, str] = {}
    for client, users in behind.items():
        for user in users:
            other = homes.setdefault(user, client)
            if behind[other] != users:
                raise TraceError(
                    f"{where}: user '{user}' is behind the clients '{other}' and '{client}', which have other users "
                    "besides; name one client for each user"
                )
