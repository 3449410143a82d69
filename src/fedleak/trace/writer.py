"""Append rounds to a trace so that a run can be killed at any moment and resumed."""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedleak.core import Params
from fedleak.errors import TraceError
from fedleak.trace.checksum import Bytes, checksum
from fedleak.trace.closed import Closed
from fedleak.trace.direct_io import Staging, write_at
from fedleak.trace.files import open_regular, private_folder
from fedleak.trace.half import has_infinities, to_half
from fedleak.trace.header import Header, TraceTable
from fedleak.trace.log import LOG, Commit, Log
from fedleak.trace.reader import Dropped, Joined, Trace
from fedleak.trace.update_rows import UpdateRows, cannot_write, joined_in_memory, raw_bytes

if TYPE_CHECKING:
    from fedleak.federation.federation import Round

__all__ = ["TraceWriter"]


@dataclass(frozen=True, slots=True)
class _Position:
    """What is committed so far."""

    round: int  # -1 before the initial model
    clients: int
    notes: int
    logged: int  # bytes
    model: npt.NDArray[np.float32] | None  # flat


class TraceWriter:
    """The record of one run while it grows.

    Files are append-only, and a round exists once its line is in the log, which is written last. A killed process
    therefore leaves at most a tail that no line covers; opening the trace again truncates it. This holds for a killed
    process, not for a power failure, after which the kernel may have kept the log but not a row: checksums detect that.
    """

    def __init__(self, folder: Path, header: Header, at: _Position, files: Mapping[str, int]) -> None:
        self.folder = folder
        self.header = header
        self._tables = header.tables()
        # Computed once: recording a round of a small model takes less time than summing its layout.
        self._layers = [(layer.name, layer.size) for layer in header.layout]
        self._shadow = np.array(header.shadow, dtype="<i4")
        self._clients = list(header.clients)
        layers = [table.name for table in self._tables if table.observation == "updates"]
        names = [layer.name for layer in header.layout]
        self._holes = {file for file, name in zip(layers, names, strict=False) if name in header.unrecorded}
        self._at = at
        # Kept open: reopening them would cost a short round as much as writing them.
        self._files = files
        self.staging = Staging(direct=header.rounds is None)
        weakref.finalize(self, _close, files)

    @staticmethod
    def open(folder: Path, header: Header) -> TraceWriter:
        """Begin a trace, or resume one that the same plan began."""
        private_folder(folder)
        tables = header.tables()
        if (folder / "header.json").exists():
            _require_same(folder, header)
        else:
            # A temporary file of an interrupted start is ours; anything else is not, and must not be overwritten.
            if foreign := [path.name for path in folder.iterdir() if not path.name.endswith(".tmp")]:
                raise TraceError(
                    f"{folder} holds files that are not part of a trace ({min(foreign)}); choose another --out"
                )
            header.save(folder)
        if not (folder / LOG).exists() and any(_holds(folder / table.name) for table in tables):
            raise TraceError(f"{folder / LOG} is missing; restore it from a copy, or choose another --out")
        files = _open_all(folder, (LOG, *(table.name for table in tables)))
        try:
            log = Log.read(folder, tables)
            # The log first: if this is interrupted, a line without its rows would be worse than rows without a line.
            _truncate(files[LOG], folder / LOG, log.bytes)
            for table in tables:
                _truncate(files[table.name], folder / table.name, log.end(table, log.rounds))
            Closed.reopen(folder)
            writer = TraceWriter(folder, header, _position(folder, header, log), files)
            if log.rounds >= 0:
                writer._join(Trace.open(folder).header.clients[len(header.clients) :])
            return writer
        except BaseException:
            _close(files)
            raise

    @property
    def rounds(self) -> int:
        """How many rounds are on disk."""
        return max(self._at.round, 0)

    @property
    def clients(self) -> tuple[str, ...]:
        """The pseudonyms of all clients so far, by index."""
        return tuple(self._clients)

    @property
    def weights(self) -> Params | None:
        """The global model after the last round on disk; None before `start`."""
        return None if self._at.model is None else self.header.split(self._at.model)

    def start(self, weights: Params) -> None:
        """Record the initial model."""
        if self._at.round >= 0:
            raise ValueError("the trace has already started")
        nothing = np.empty(0, np.uint8)
        model = self._model(weights)
        chunks = [raw_bytes(model) if table.per == "model" else nothing for table in self._tables]
        self._commit(0, 0, chunks, model)

    def rows(self) -> UpdateRows:
        """Begin the next round by its updates, one client at a time; `append` with these rows ends it."""
        return UpdateRows(self)

    def append(self, record: Round, joined: Sequence[str] = (), rows: UpdateRows | None = None) -> None:
        """Record a round atomically, or raise an error; `joined` are clients that the trace does not know yet.

        With `rows` its updates are on disk already, in the order of its clients.
        """
        if self._at.round < 0 or record.number != self._at.round + 1:
            raise ValueError(f"round {record.number} cannot follow round {self._at.round}")
        clients = np.asarray(record.clients)
        if joined and self.header.rounds is not None:
            raise ValueError("no client can join a run whose clients are all in its header")
        if len(clients) and not 0 <= clients.min() <= clients.max() < len(self._clients) + len(joined):
            raise ValueError(f"round {record.number} names a client that the trace does not have")
        if len({*self._clients, *joined}) < len(self._clients) + len(joined):
            raise ValueError(f"round {record.number}: a client that joins is there already")
        model = self._model(record.weights)
        notes: list[Joined | Dropped] = [Joined(record.number, client) for client in joined]
        notes += [Dropped(record.number, client, why) for client, why in record.dropped]
        shadow = np.append(self._shadow, np.full(len(joined), -1, dtype="<i4"))
        chunks = [
            raw_bytes(model),
            raw_bytes(self._model(record.aggregate)),
            raw_bytes(clients.astype("<i4")),
            raw_bytes(shadow[clients]),
            raw_bytes(np.asarray(record.sizes).astype("<i4")),
            np.frombuffer(b"".join(msgspec.json.encode(note) + b"\n" for note in notes), np.uint8),
        ]
        if self.header.holds_updates and rows is None:
            chunks += [raw_bytes(self._updates(record, name, size)) for name, size in self._layers]
        if rows is not None and rows.count != len(clients):
            raise ValueError(f"round {record.number} has {len(clients)} clients and {rows.count} updates")
        self._commit(record.number, len(clients), chunks, model, rows)
        self._join(joined)

    def close(self, reason: str = "") -> None:
        """Say that no round follows, and why, if the run ended early."""
        Closed(rounds=self.rounds, reason=reason).save(self.folder)

    def _join(self, names: Sequence[str]) -> None:
        self._clients += names
        self._shadow = np.append(self._shadow, np.full(len(names), -1, dtype="<i4"))

    def _model(self, params: Params) -> npt.NDArray[np.float32]:
        parts = [np.asarray(params[name], dtype="<f4") for name, _ in self._layers]
        for (name, size), part in zip(self._layers, parts, strict=True):
            if part.shape != (size,):
                raise ValueError(f"layer '{name}' has shape {part.shape}, not ({size},)")
        # A recorder never changes a model that it handed over; an engine may.
        whole = joined_in_memory(parts) if self.header.rounds is None else None
        return np.concatenate(parts) if whole is None else whole

    def _updates(self, record: Round, layer: str, size: int) -> npt.NDArray[Any]:
        rows = np.asarray(record.updates[layer])
        if rows.shape != (len(record.clients), size):
            raise ValueError(f"updates of layer '{layer}' have shape {rows.shape}")
        return self._stored(rows, record.number, layer)

    def _stored(self, rows: npt.NDArray[Any], number: int, layer: str) -> npt.NDArray[Any]:
        if self.header.dtype == "float32":
            return rows.astype("<f4", copy=False)
        half = to_half(rows)
        if has_infinities(half) and np.isinf(half).any() and not np.isinf(rows).any():
            where = "as a parameter of the recorder" if self.header.rounds is None else "in the plan's [record]"
            raise TraceError(
                f"round {number}: an update of layer '{layer}' reaches {np.abs(rows).max():.3g}, more than float16 can "
                f'hold (65504); set dtype = "float32" {where} and choose another folder'
            )
        return half

    def _commit(
        self,
        number: int,
        clients: int,
        chunks: Sequence[Bytes],
        model: npt.NDArray[np.float32],
        rows: UpdateRows | None = None,
    ) -> None:
        tables = self._tables[: len(chunks)]
        commit = Commit(
            round=number,
            clients=self._at.clients + clients,
            notes=self._at.notes + sum(len(c) for c, t in zip(chunks, tables, strict=True) if t.per == "note"),
            crc=[*(checksum(chunk) for chunk in chunks), *(rows.checksums() if rows is not None else ())],
        )
        line = np.frombuffer(commit.line(), np.uint8)
        try:
            if rows is not None:
                rows.flush()
            for table, chunk in zip(tables, chunks, strict=True):
                if table.name in self._holes:  # zeros take no space
                    os.ftruncate(self._files[table.name], self._end(table) + len(chunk))
                else:
                    self.staging.copy(self._files[table.name], self.folder / table.name, self._end(table), chunk)
            write_at(self._files[LOG], self._at.logged, line)
        except OSError as error:
            self._roll_back()
            needed = sum(map(len, chunks)) + len(line)
            raise cannot_write(self.folder, number, needed, error) from error
        except BaseException:
            self._roll_back()
            raise
        # In one step, so that an interrupt cannot leave half of it.
        self._at = _Position(number, commit.clients, commit.notes, self._at.logged + len(line), model)

    def _end(self, table: TraceTable) -> int:
        at = self._at
        return table.end(at.round, at.clients, at.notes) if at.round >= 0 else 0

    def _roll_back(self) -> None:
        # What cannot be truncated now is truncated when the trace is opened again.
        with contextlib.suppress(OSError):
            os.ftruncate(self._files[LOG], self._at.logged)
            for table in self._tables:
                os.ftruncate(self._files[table.name], self._end(table))


def _require_same(folder: Path, header: Header) -> None:
    found = Header.load(folder)
    if found.fingerprint != header.fingerprint:
        raise TraceError(f"{folder} holds the results of another plan; choose another --out, or delete the folder")
    if msgspec.json.encode(found) != msgspec.json.encode(header):
        raise TraceError(
            f"{folder} was recorded from this plan by another version of Fedleak or with other data; "
            "choose another --out, or delete the folder"
        )


def _open_all(folder: Path, names: Iterable[str]) -> Mapping[str, int]:
    files: dict[str, int] = {}
    try:
        for name in names:
            files[name] = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.fchmod(files[name], 0o600)
    except OSError as error:
        _close(files)
        many = " (raise the limit on open files: ulimit -n)" if error.errno == errno.EMFILE else ""
        raise TraceError(f"cannot write to {folder}: {error.strerror}{many}") from error
    return files


def _close(files: Mapping[str, int]) -> None:
    for descriptor in files.values():
        os.close(descriptor)


def _holds(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _truncate(descriptor: int, path: Path, size: int) -> None:
    found = os.fstat(descriptor).st_size
    if found < size:
        raise TraceError(
            f"{path} is truncated: {found} bytes where the log says {size}; "
            f"restore it from a copy, or delete {path.parent} and run again"
        )
    os.ftruncate(descriptor, size)


def _position(folder: Path, header: Header, log: Log) -> _Position:
    if log.rounds < 0:
        return _Position(-1, 0, 0, log.bytes, None)
    table = header.tables()[0]
    with open(open_regular(folder / table.name), "rb") as file:
        file.seek(log.end(table, log.rounds - 1))
        data = np.frombuffer(bytearray(file.read(table.row)), np.uint8)
    if checksum(data) != log.crc[-1, 0]:
        raise TraceError(f"{folder / table.name} is damaged (checksum); delete {folder} and run again")
    return _Position(log.rounds, int(log.clients[-1]), int(log.notes[-1]), log.bytes, data.view("<f4"))
