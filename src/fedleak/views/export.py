"""Write what a view shows into a folder of its own: a trace with the permitted files and rows, and nothing else.

An attack runs where only this folder can be read. Files that an adversary sees as a whole are linked, not copied, so
that a long run costs nothing; of the others only the permitted rows are written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedleak.core import Capability, IntArray, Observation
from fedleak.trace.checksum import checksum
from fedleak.trace.files import private_folder
from fedleak.trace.header import Header, TraceTable
from fedleak.trace.log import LOG, Commit
from fedleak.trace.reader import Trace
from fedleak.views.view import View

__all__ = ["export_view"]

_POWERS: Mapping[str, Capability] = {
    "imprint": Capability.CHOOSE_MODEL,
    "inject": Capability.INJECT,
    "isolate": Capability.ISOLATE,
    "join": Capability.JOIN,
}


def export_view(view: View, folder: Path) -> dict[str, Any]:
    """Write the folder; with what is returned, `View(folder, **found)` shows the same there."""
    private_folder(folder)
    trace, seen = view._trace, view._observations
    header = _header(trace.header, view)
    header.save(folder)
    counts = _counts(view)
    crc = np.zeros_like(trace._log.crc)
    for place, table in enumerate(header.tables()):
        if not _shown(table, seen, trace.header.holds_updates):
            continue
        if table.observation == "aggregates" and view._every > 1:
            continue  # sums of rounds would give the snapshots between
        if table.per == "client" and view._rows is not None:
            crc[:, place] = _copy_rows(trace, table, folder, view._rows, counts)
        elif table.observation == "snapshots" and (view._every > 1 or Observation.SNAPSHOTS not in seen):
            kept = view._kept if Observation.SNAPSHOTS in seen else [trace.rounds]
            _copy_models(trace, table, folder, kept)
            crc[kept, place] = trace._log.crc[kept, place]
        else:
            _link(trace.folder / table.name, folder / table.name)
            crc[:, place] = trace._log.crc[:, place]
    lines = (
        Commit(round=number, clients=int(count), notes=0, crc=row.tolist()).line()
        for number, (count, row) in enumerate(zip(counts, crc, strict=True))
    )
    (folder / LOG).write_bytes(b"".join(lines))
    told = [view._present(number) for number in range(1, trace.rounds + 1)] if Observation.SELECTION in seen else None
    return {
        "adversary": view.adversary,
        "shadow": view.updates.shadow if Observation.UPDATES in seen and trace.header.holds_updates else None,
        "injected": dict(view._injected),
        "every": view._every,
        "defences": view.defences,
        "own_model": view.own_model,
        "own_training": view.own_training,
        "selection": None if told is None else tuple(np.sort(one) for one in told),
    }


def _header(header: Header, view: View) -> Header:
    """The header without what this adversary does not know: the plan's fingerprint, the defences, what others did."""
    powers = view.adversary.capabilities
    lacking = view.adversary.observations & ~view._observations
    return msgspec.structs.replace(
        header,  # the view's trace has dropped the clients' names already, where they are hidden
        fingerprint="view",
        rounds=view._trace.rounds,  # known by now, also where training stopped early
        defences=(),
        # Whether sizes follow from the rest is not to be derived again from a header that says less.
        hidden=tuple(sorted({*header.hidden, *(str(one.name) for one in lacking)})),
        tampering=tuple(one for one in header.tampering if _POWERS.get(one["power"], powers) & powers),
    )


def _shown(table: TraceTable, seen: Observation, holds_updates: bool) -> bool:
    """Whether the folder holds a file; the labels of shadow updates and the selection are handed over otherwise."""
    return {
        "snapshots": Observation.MODEL in seen,
        "aggregates": Observation.AGGREGATE in seen,
        "client": Observation.LINKS in seen,
        "size": Observation.SIZES in seen,
        "updates": Observation.UPDATES in seen and holds_updates,
    }.get(table.observation, False)


def _counts(view: View) -> IntArray:
    """How many updates there are up to the end of each round; none where the adversary sees no updates."""
    trace = view._trace
    if Observation.UPDATES not in view._observations:
        return np.zeros(trace.rounds + 1, dtype=np.int64)
    rows = np.arange(len(trace.round)) if view._rows is None else view._rows
    return np.cumsum(np.bincount(trace.round[rows], minlength=trace.rounds + 1))


def _copy_rows(trace: Trace, table: TraceTable, folder: Path, rows: IntArray, counts: IntArray) -> list[int]:
    """Write some rows of a file, and return the checksum of each round."""
    start, found = 0, []
    pending = np.zeros((0, table.row), np.uint8)
    ends = iter(counts.tolist())
    end, written = next(ends), 0
    with open(folder / table.name, "wb", opener=_private) as file:
        for block in trace._stream(table, table.row * max(1, (1 << 21) // table.row)):
            every = block.reshape(-1, table.row)
            first, last = np.searchsorted(rows, [start, start + len(every)])
            start += len(every)
            pending = np.concatenate([pending, every[rows[first:last] - (start - len(every))]])
            while written + len(pending) >= end:
                chunk, pending = pending[: end - written], pending[end - written :]
                file.write(chunk.tobytes())
                found.append(checksum(np.ascontiguousarray(chunk).reshape(-1)))
                written = end
                if len(found) == len(counts):
                    return found
                end = next(ends)
    return found + [checksum(np.zeros(0, np.uint8))] * (len(counts) - len(found))


def _copy_models(trace: Trace, table: TraceTable, folder: Path, kept: Sequence[int]) -> None:
    """Write the models of some rounds, each at its place; the rest of the file is a hole."""
    with open(folder / table.name, "wb", opener=_private) as file:
        for number in kept:
            file.seek(number * table.row)
            file.write(np.concatenate(list(trace.snapshot(number).values())).tobytes())


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
        target.chmod(0o600)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
