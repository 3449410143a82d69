"""Which record is in which client's data of a recorded run, as the auditor says: secrets, and watermarks.

A record may be confidential, so no error shows one: it is named by its row and by its client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedleak.errors import DataError, TraceError
from fedleak.record.owners import clients_by_name, csv_rows
from fedleak.record.recording import Recording

__all__ = ["Planted", "planted_of"]


@dataclass(frozen=True, slots=True)
class Planted:
    """One record and the clients that hold it: several, where a client was restarted under a new name."""

    client: str  # as the auditor names it
    clients: tuple[str, ...]  # pseudonyms
    record: str
    where: str  # the place in the auditor's file, for errors


def planted_of(
    recording: Recording, named: str, column: str, absent: Sequence[str] | None, told: Any = None
) -> tuple[list[Planted], list[str]]:
    """The records, and the names of clients that hold one and never took part.

    They are in a CSV file with the columns client and `column`; `told` is what a callable gave instead. `absent` are
    the clients of which the owners say that they exist, although they are not in the run: any other name is refused.
    None: nobody says which there are, so a name that is not in the run may be that of a client that never took part.
    """
    rows = _rows(Path(named).expanduser(), column) if told is None else _told(told, named, column)
    by_name = clients_by_name(recording)
    found: list[Planted] = []
    idle: list[str] = []
    seen: dict[str, str] = {}
    for where, client, record in rows:
        if client not in by_name:
            if client.startswith("c-") if absent is None else client not in absent:
                some = ", ".join(recording.name(one) or one for one in recording.trace.header.clients[:3])
                raise TraceError(
                    f"{where}: {recording.folder} has no client '{client}' (it has {some}, ...); name the partition, "
                    "the node or the pseudonym of a client that took part, or leave it out"
                )
            idle.append(client)
            continue
        mine = tuple(by_name[client])
        for one in mine:
            if one in seen:
                raise TraceError(
                    f"{where}: client '{client}' has a {column} already ({seen[one]}), and one is asked for; keep one"
                )
            seen[one] = where
        found.append(Planted(client, mine, record, where))
    return found, idle


def _rows(path: Path, column: str) -> list[tuple[str, str, str]]:
    if not path.exists():
        raise TraceError(f"{path}: no such file; give a CSV file with the columns client and {column}")
    rows = csv_rows(path)
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["client", column]:
        raise TraceError(f"{path}: the first line must be client,{column}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not row[0].strip() or not row[1]:
            raise TraceError(
                f"{path}, row {number}: expected a client and a {column}, got {len(row)} columns"
                f"{'' if len(row) != 2 else ', one of them empty'}; put a {column} with a comma in it in quotes"
            )
    return [(f"{path}, row {number}", row[0].strip(), row[1]) for number, row in enumerate(rows[1:], 2)]


def _told(told: Any, named: str, column: str) -> list[tuple[str, str, str]]:
    if not isinstance(told, Mapping):
        raise DataError(f"{named} returned {type(told).__name__}; expected a dict {{client: {column}}}")
    for client, record in told.items():
        if not isinstance(record, str) or not record:
            what = "an empty text" if record == "" else type(record).__name__
            raise DataError(f"{named}: the {column} of client '{client}' is {what}; expected one text")
    return [(f"{named}, client '{client}'", str(client), record) for client, record in told.items()]
