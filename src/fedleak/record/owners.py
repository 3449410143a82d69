"""Whose client is whose in a recorded run, as the auditor says."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedleak.core import UserId
from fedleak.errors import TraceError
from fedleak.record.recording import Recording
from fedleak.trace.files import read_whole

__all__ = ["Owners", "owners_of"]

_COLUMNS = ["client", "user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """The users behind the clients of a recorded run."""

    users: Mapping[str, UserId]  # by pseudonym
    unclaimed: tuple[str, ...] = ()  # clients of the run without an owner
    absent: tuple[str, ...] = ()  # names of clients that never took part


def owners_of(recording: Recording, owners: str, told: Mapping[str, str] | None = None) -> Owners:
    """Read the owners: `key`, or a CSV file with the columns client and user; `told` are those that a callable gave.

    A client is named by its pseudonym, by its partition, or by its node.
    """
    clients = recording.trace.header.clients
    if told is not None:
        return _resolve(recording, told.items(), owners)
    if owners != "key":
        path = Path(owners).expanduser()
        return _resolve(recording, _rows(path), str(path))
    if not recording.known:
        raise TraceError(
            f'owners = "key", but {recording.folder} has no key/ that says which client is which; give a CSV file with '
            "the columns client and user"
        )
    named = {client: recording.name(client) for client in clients}
    return Owners(
        users={client: UserId(name) for client, name in named.items() if name is not None},
        unclaimed=tuple(client for client, name in named.items() if name is None),
    )


def _rows(path: Path) -> list[tuple[str, str]]:
    if not path.exists():
        raise TraceError(f'{path}: no such file; owners is "key", or a CSV file with the columns client and user')
    try:
        text = read_whole(path).decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read as CSV: {error}") from error
    if not rows or [cell.strip().lower() for cell in rows[0]] != _COLUMNS:
        raise TraceError(
            f"{path}: the first line must be client,user; it is {','.join(rows[0]) if rows else 'empty'!r}"
        )
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not all(cell.strip() for cell in row):
            raise TraceError(f"{path}, row {number}: expected a client and a user, got {','.join(row)!r:.60}")
    return [(row[0].strip(), row[1].strip()) for row in rows[1:]]


def _resolve(recording: Recording, rows: Iterable[tuple[str, str]], where: str) -> Owners:
    """Find the clients that names mean; a partition may have several, because a restarted node is a new client."""
    clients = recording.trace.header.clients
    ways: list[dict[str, list[str]]] = [{client: [client] for client in clients}, {}, {}]
    for client in clients:
        if (known := recording.known.get(client)) is not None:
            if known.partition is not None:
                ways[1].setdefault(known.partition, []).append(client)
            ways[2].setdefault(known.node, []).append(client)
    found: dict[str, UserId] = {}
    absent = []
    for name, user in rows:
        mine = next((way[str(name)] for way in ways if str(name) in way), [])
        if not mine:
            absent.append(str(name))
        for client in mine:
            if found.get(client, user) != user:
                raise TraceError(f"{where}: client '{name}' has two owners, '{found[client]}' and '{user}'; keep one")
            found[client] = UserId(str(user))
    strangers = [name for name in absent if name.startswith("c-") and name not in recording.known]
    if strangers or (absent and not found):
        what = strangers or absent
        raise TraceError(
            f"{where} names {len(what)} client(s) that {recording.folder} does not have (first: '{what[0]}'); is it "
            f"the file of another run? Its clients are {', '.join(clients[:3])}{', ...' if len(clients) > 3 else ''}"
        )
    return Owners(
        users=found, unclaimed=tuple(client for client in clients if client not in found), absent=tuple(absent)
    )
