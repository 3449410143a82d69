"""What a trace folder holds: rounds, clients, drops, what was left out, and how its recording ended."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import numpy as np

from fedleak.core import Observation
from fedleak.errors import TraceError
from fedleak.record.recording import Recording, shortened
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace

__all__ = ["TraceFacts", "Participation", "open_folder", "facts_of"]

_MOST_REASONS = 20  # kinds of drops that are listed; clients write the reasons


class Participation(msgspec.Struct, frozen=True, kw_only=True):
    """In how many rounds the update of a client was recorded, over all clients; no client is named."""

    least: int
    median: float
    most: int
    once: int  # clients with one update: no other update can be linked to it


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace folder holds."""

    folder: str
    origin: dict[str, str]  # framework, version, strategy; empty where Fedleak trained the run
    state: str  # closed, partial, or open: the run goes on, or its server was killed
    reason: str  # why it is not closed; empty otherwise
    rounds: int
    rounds_with_updates: int
    jumps: list[int]  # rounds without clients that lead to another model: the server started again, or changed it
    clients: int
    updates: int
    participation: Participation | None
    drops: dict[str, int]  # reason -> how often
    parameters: int
    layers: dict[str, int]  # name -> parameters
    dtype: str
    every: int  # updates were recorded in every k-th round
    sums_only: bool
    sizes: bool  # whether clients told how many examples they trained on
    buffers: list[str]
    unrecorded: list[str]  # layers whose updates were left out
    left_out: dict[str, str]  # arrays that are not in the trace, and why
    notes: list[str]
    disk: int  # bytes
    key: bool  # whether the folder says which client is which
    partitions: bool  # whether it says so by partition of the data
    truth: bool  # of a run that Fedleak trained: its truth and its prior lie beside the trace
    prior: bool

    @property
    def observations(self) -> Observation:
        """What the trace can show to the adversary that sees everything."""
        seen = Observation.SNAPSHOTS | Observation.MODEL | Observation.AGGREGATE
        if not self.sums_only and self.updates:
            seen |= Observation.UPDATES | Observation.LINKS
        if self.every == 1 and self.updates:
            seen |= Observation.SELECTION
        return seen | Observation.SIZES if self.sizes else seen


def open_folder(path: Path) -> Recording:
    """A recorded run, the run of an audit, or a folder that is a trace itself."""
    if (path / "header.json").exists() and not (path / "trace").exists():
        if path.name == "trace":
            return Recording.open(path.parent)
        return Recording(folder=path.parent, trace=Trace.open(path), state=None, known={}, salt=b"")
    return Recording.open(path)


def facts_of(recording: Recording) -> TraceFacts:
    """Verify every checksum, and count."""
    trace, state = recording.trace, recording.state
    trace.verify()
    header = trace.header
    taken = recording.participations[np.asarray(header.shadow, dtype=np.int64) < 0]  # not the adversary's own clients
    taken = taken[taken > 0]
    drops = Counter(shortened(note.why) or "no reason was given" for note in trace.dropped())
    closed = Closed.load(trace.folder)
    ended, reason = _ended(trace, closed)
    return TraceFacts(
        folder=str(recording.folder),
        origin=recording.origin,
        state=ended,
        reason=reason,
        rounds=trace.rounds,
        rounds_with_updates=len(recording.rounds_with_updates),
        jumps=_jumps(trace),
        clients=sum(1 for shadow in header.shadow if shadow < 0),
        updates=int(taken.sum()),
        participation=Participation(
            least=int(taken.min()), median=float(np.median(taken)), most=int(taken.max()), once=int((taken == 1).sum())
        )
        if len(taken)
        else None,
        drops=dict(drops.most_common(_MOST_REASONS)),
        parameters=header.size,
        layers={shortened(layer.name): layer.size for layer in header.layout},
        dtype=header.dtype,
        every=header.every,
        sums_only=not header.holds_updates,
        sizes=bool(len(trace.size)) and int(np.asarray(trace.size).min()) > 0,
        buffers=[shortened(name) for name in header.buffers],
        unrecorded=[shortened(name) for name in header.unrecorded],
        left_out={} if state is None else {shortened(k): shortened(v) for k, v in state.left_out.items()},
        notes=[] if state is None else [shortened(note) for note in state.notes],
        disk=_disk(recording.folder if (recording.folder / "trace").exists() else trace.folder),
        key=bool(recording.known),
        partitions=any(known.partition is not None for known in recording.known.values()),
        truth=(trace.folder.parent / "truth" / "truth.json").exists(),
        prior=(trace.folder.parent / "prior" / "prior.json").exists(),
    )


def _ended(trace: Trace, closed: Closed | None) -> tuple[str, str]:
    if trace.header.rounds is not None:
        planned = trace.header.rounds
        return ("closed", "") if trace.rounds == planned else ("open", f"{trace.rounds} of {planned} rounds are there")
    if closed is None:
        return "open", "the recording was not closed: the run goes on, or its server was killed"
    return ("partial", shortened(closed.reason)) if closed.reason else ("closed", "")


def _jumps(trace: Trace) -> list[int]:
    """Rounds that nobody took part in, or was lost in, after which the model is another one.

    Where updates are only recorded in some rounds, others look the same; the recorder's notes name them then.
    """
    if trace.header.every > 1:
        return []
    present = np.bincount(trace.round, minlength=trace.rounds + 1)
    lost = {note.round for note in trace.dropped()}
    empty = [number for number in range(1, trace.rounds + 1) if not present[number] and number not in lost]
    found = []
    for number in empty:
        before, after = trace.snapshot(number - 1), trace.snapshot(number)
        if any(not np.array_equal(before[name], after[name]) for name in after):
            found.append(number)
    return found


def _disk(folder: Path) -> int:
    """Bytes on disk: layers that were left out take none."""
    try:
        return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise TraceError(f"{folder} cannot be read: {error.strerror}") from error
