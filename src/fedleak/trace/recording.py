"""Record a run while it trains: each round is written while the next one is computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from fedleak.trace.writer import TraceWriter, estimate

if TYPE_CHECKING:
    from fedleak.federation.federation import Round

__all__ = ["record"]

_LARGE = 1 << 20  # bytes of a round
_TYPICAL = 10  # updates in it


def record(writer: TraceWriter, rounds: Iterable[Round]) -> Iterator[Round]:
    """Yield each round once it is on disk.

    Writing a large round costs mostly the kernel's time, during which another could be trained; a small one is written
    at once, because handing it to a thread costs more than that. No more than one round waits to be written, so memory
    stays bounded and a killed run loses at most the round before the one it was in. A round that cannot be written
    raises its error before the next one is.
    """
    if estimate(writer.header, 2, _TYPICAL) - estimate(writer.header, 1, _TYPICAL) < _LARGE:
        for done in rounds:
            writer.append(done)
            yield done
        return
    with ThreadPoolExecutor(1, thread_name_prefix="recording") as pen:
        waiting: tuple[Round, Future[None]] | None = None
        for done in rounds:
            if waiting is not None:
                waiting[1].result()
                yield waiting[0]
            waiting = done, pen.submit(writer.append, done)
        if waiting is not None:
            waiting[1].result()
            yield waiting[0]
