"""Record a federation beside the server that trains it, without ever getting in its way.

An adapter (flower.py, nvflare.py, pfl.py) tells the recorder what the server sends and receives. Whatever goes wrong
here is warned of once and closes the trace: the rounds so far stay usable, and the user's training goes on.
"""

from __future__ import annotations

import functools
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec

import numpy as np

from fedleak.core import FloatArray, Params
from fedleak.errors import FedleakError, TraceError
from fedleak.federation.federation import Round
from fedleak.record.arrays import ArrayLayout, Arrays
from fedleak.record.key import Key
from fedleak.record.round_sum import add_up, all_alike, finite_update, fitting, is_finite
from fedleak.record.state import RecorderState, Reply
from fedleak.trace.files import private_folder
from fedleak.trace.header import Header
from fedleak.trace.lock import locked
from fedleak.trace.update_rows import UpdateRows
from fedleak.trace.writer import TraceWriter

__all__ = ["Recorder", "Reply"]

P = ParamSpec("P")
_LONGEST = 300  # characters of the reason why a client was lost


def _guarded(method: Callable[Concatenate[Recorder, P], None]) -> Callable[Concatenate[Recorder, P], None]:
    """Let no error out: the user's training must not stop because it is recorded."""

    @functools.wraps(method)
    def safe(self: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        if not self.active:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.failed(error)

    return safe


class Recorder:
    """Writes `trace/`, `key/` and `recorder.json` below one folder, round by round."""

    def __init__(
        self,
        folder: str | Path,
        *,
        origin: Mapping[str, str],
        dtype: Literal["float32", "float16"] = "float32",
        every: int = 1,
        layers: Sequence[str] | None = None,
        sums: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Record into a folder; nothing is written before the first round is over.

        `dtype` is how updates are stored. With `every` the updates of every k-th round are recorded, and the model of
        all rounds. `layers` are those whose updates are recorded, all if absent. With `sums` no single update is
        recorded, only the mean of each round and who took part.
        """
        self.active = True
        self._folder, self._origin, self._settings = Path(folder), dict(origin), dict(settings or {})
        self._dtype, self._every, self._layers, self._sums = dtype, every, layers, sums
        self._arrays: ArrayLayout | None = None
        self._start: dict[str, FloatArray] | None = None  # the model that the clients of this round were sent
        self._recorded: Params | None = None  # the last model in the trace
        self._asked = 0  # training rounds of the server in this start
        self._writer: TraceWriter | None = None
        self._key: Key | None = None
        self._notes: list[str] = []
        self._held = ExitStack()
        if dtype not in ("float32", "float16") or every < 1:
            self.failed(TraceError(f"dtype is float32 or float16 and every at least 1, not {dtype!r} and {every!r}"))

    @_guarded
    def sent(self, arrays: Arrays) -> None:
        """The model that a round's clients are sent."""
        if self._arrays is None:
            self._arrays = ArrayLayout.of(arrays)
        # Usually it is the model that the last round ended with, which need not be copied.
        if self._start is None or not self._arrays.holds(self._start, arrays):
            self._start = self._arrays.model(arrays, self._start)

    @_guarded
    def received(
        self, replies: Sequence[Reply], lost: Sequence[tuple[str, str]] = (), after: Arrays | None = None
    ) -> None:
        """The end of a training round: the replies, who was lost and why, and the new model (None: as before)."""
        if self._start is None or self._arrays is None:
            raise TraceError("a round ended that began before the recorder was there")
        self._asked += 1
        start, arrays = self._start, self._arrays
        weights = start if after is None or arrays.holds(start, after) else arrays.model(after, start)
        writer = self._opened(replies, start)
        self._jump(writer, start)
        key = self._key
        assert key is not None
        replies = [replies[int(at)] for at in _shuffled(len(replies))]  # the order must not tell who is who
        names = [key.pseudonym(reply.client, reply.partition) for reply in replies]
        # An error message may name the client; the trace must not.
        dropped = [(name := key.pseudonym(client), why.replace(client, name)[:_LONGEST]) for client, why in lost]
        rows = writer.rows() if writer.header.holds_updates and self._asked % self._every == 0 else None
        kept, mean = self._add_up(replies, names, start, rows, dropped)
        present = [names[at] for at in kept] if rows is not None or not writer.header.holds_updates else []
        sizes = [max(0, replies[at].examples or 0) for at in kept[: len(present)]]
        known = {name: index for index, name in enumerate(writer.clients)}
        joined = [name for name in dict.fromkeys(present) if name not in known]
        known |= {name: len(known) + place for place, name in enumerate(joined)}
        done = Round(
            number=writer.rounds + 1,
            clients=np.array([known[name] for name in present], dtype=np.int64),
            sizes=np.array(sizes, dtype=np.int64),
            updates={} if rows is not None else {name: values[None][:0] for name, values in start.items()},
            aggregate=mean or {name: weights[name] - start[name] for name in start},
            weights=weights,
            dropped=tuple(dropped),
        )
        writer.append(done, joined, rows)
        self._start = self._recorded = weights

    def _add_up(
        self,
        replies: Sequence[Reply],
        names: Sequence[str],
        start: Params,
        rows: UpdateRows | None,
        dropped: list[tuple[str, str]],
    ) -> tuple[list[int], Params]:
        """Take one reply after another: which were kept, and the mean of the updates, weighted by examples.

        The mean is empty where there was nothing to add up.
        """
        assert self._arrays is not None
        same = rows is not None and all_alike(self._arrays, replies, start)
        if same:
            self._note("some rounds show one update for all clients, as secure aggregation does; they are left out")
        counts = [reply.examples or 0 for reply in replies]
        shares = counts if all(counts) else [1] * len(replies)
        kept = fitting(self._arrays, replies, names, dropped)
        total = add_up(self._arrays, replies, kept, start, shares, None if same else rows)
        if not all(is_finite(values) for values in total.values()):
            # One value that is not finite spoils the sum. It is rare, and only then every update is looked at alone.
            if rows is not None:
                rows.restart()
            finite = [at for at in kept if finite_update(self._arrays, replies[at], start)]
            dropped += [(names[at], "its update is not finite") for at in kept if at not in finite]
            kept = finite
            total = add_up(self._arrays, replies, kept, start, shares, None if same else rows)
        if not kept:
            return [], {}
        divisor = np.float32(sum(shares[at] for at in kept))
        for values in total.values():
            np.divide(values, divisor, out=values)
        if same:
            dropped += [(names[at], "the same update as every other client: secure aggregation") for at in kept]
            kept = []
        return kept, total

    def _jump(self, writer: TraceWriter, start: Params) -> None:
        """Where clients were sent another model than the last one on record, a round without clients leads there."""
        if start is self._recorded:
            return
        before = writer.weights
        if before is None:
            writer.start(start)
            return
        if all(np.array_equal(before[name].view(np.uint32), start[name].view(np.uint32)) for name in start):
            return
        writer.append(
            Round(
                number=writer.rounds + 1,
                clients=np.zeros(0, dtype=np.int64),
                sizes=np.zeros(0, dtype=np.int64),
                updates={name: values[None][:0] for name, values in start.items()},
                aggregate={name: start[name] - before[name] for name in start},
                weights=start,
            )
        )
        self._note(f"round {writer.rounds} has no clients: the server sent another model than the last on record")

    def _opened(self, replies: Sequence[Reply], start: Params) -> TraceWriter:
        """The writer: at the end of the first round, because only now it shows whether there are single updates."""
        if self._writer is not None:
            return self._writer
        assert self._arrays is not None
        private_folder(self._folder)
        self._held.enter_context(locked(self._folder))
        trace = self._folder / "trace"
        if (trace / "header.json").exists():
            header = Header.load(trace)
            if header.layout != self._arrays.layout:
                self._held.close()
                raise _Elsewhere(f"{self._folder} holds a recording of another model; give the recorder another folder")
        else:
            header = self._header(replies, start)
        self._key = Key.open(self._folder / "key")
        self._writer = TraceWriter.open(trace, header)
        self._save("recording")
        return self._writer

    def _header(self, replies: Sequence[Reply], start: Params) -> Header:
        assert self._arrays is not None
        names = [layer.name for layer in self._arrays.layout]
        if unknown := set(self._layers or ()) - set(names):
            raise TraceError(f"the model has no layer '{min(unknown)}'; it has {', '.join(names)}")
        sums = self._sums
        if not sums and all_alike(self._arrays, replies, start):
            sums = True
            self._note("every client shows the same update, as secure aggregation does: only sums are recorded")
        counted = all(reply.examples for reply in replies)
        return Header(
            fingerprint=secrets.token_hex(16),
            rounds=None,
            task=None,
            model="recorded",
            layout=self._arrays.layout,
            clients=(),
            shadow=(),
            settings={"weighting": "examples" if counted else "equal", **self._settings},
            dtype=self._dtype,
            holds_updates=not sums,
            origin=self._origin,
            buffers=self._arrays.buffers,
            unrecorded=tuple(name for name in names if self._layers is not None and name not in self._layers),
            every=self._every,
        )

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    @_guarded
    def close(self, reason: str = "") -> None:
        """The run is over; with a reason, before its time."""
        self.active = False
        if self._writer is not None:
            self._writer.close(reason)
            self._save("partial" if reason else "closed", reason)
        self._held.close()

    def failed(self, error: BaseException) -> None:
        """Warn once, close the trace as partial, and do nothing from now on."""
        if not self.active:
            return
        self.active = False
        reason = str(error) if isinstance(error, FedleakError) else f"{type(error).__name__}: {error}"
        try:
            # Where the folder belongs to somebody else, or the disk is full, there is nothing more to be done.
            if self._writer is not None and not isinstance(error, _Elsewhere):
                self._writer.close(reason)
                self._save("partial", reason)
        except Exception as second:
            reason += f"; and then {second}"
        finally:
            self._held.close()
        where = f"the {self._writer.rounds} rounds so far are in {self._folder}" if self._writer else "nothing"
        warnings.warn(f"Fedleak stopped recording: {reason} ({where} recorded). Training goes on.", stacklevel=3)

    def _save(self, state: Literal["recording", "closed", "partial"], reason: str = "") -> None:
        assert self._writer is not None and self._arrays is not None
        RecorderState(
            origin=self._origin,
            dtype=self._writer.header.dtype,
            every=self._every,
            layers=None if self._layers is None else list(self._layers),
            sums=not self._writer.header.holds_updates,
            state=state,
            rounds=self._writer.rounds,
            reason=reason,
            left_out=self._arrays.left_out,
            notes=self._notes,
        ).save(self._folder)


class _Elsewhere(TraceError):
    """The folder holds something that this recorder must not touch."""


def _shuffled(count: int) -> list[int]:
    return [int(at) for at in np.random.default_rng().permutation(count)]
