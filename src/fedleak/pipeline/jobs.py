"""Run independent jobs on all cores, with progress, without oversubscribing them.

A job is a function of Fedleak with plain data as its arguments, so that any process can run it.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import os
import queue
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Protocol

import msgspec

from fedleak.errors import FedleakError
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.sandbox.fork_server import fork_server, single_threaded, without_main

__all__ = ["Progress", "Tick", "cores", "share_cores", "run_jobs", "serialise_plan", "deserialise_plan"]

Job = Callable[..., None]
Tick = Callable[[float], None]


class Progress(Protocol):
    """Receives each stage and the progress within it."""

    def stage(self, text: str, units: float) -> None:
        """Begin a stage with this many units of work."""
        ...

    def tick(self, units: float) -> None:
        """Report finished units."""
        ...


_ticks: multiprocessing.queues.Queue[float] | None = None  # the queue of a worker process, set by its initializer


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_cores(count: int, wanted: int | None) -> tuple[int, int]:
    """Processes for this many jobs, and workers inside each; `wanted` is the number of cores to use, all if None.

    Jobs parallelise best; cores that no job needs are used for the clients or the attack inside one.
    """
    processes = wanted or cores()
    return processes, max(1, processes // max(1, count))


def serialise_plan(plan: Plan) -> tuple[str | Plan, bytes]:
    """A plan in the form that is passed between processes: plain data only. One with objects stays in this process."""
    return (plan, b"") if plan.in_process else (plan.text, msgspec.json.encode(plan.change))


def deserialise_plan(text: str | Plan, change: bytes) -> Plan:
    """Read the plan again, in a worker process."""
    return text if isinstance(text, Plan) else _parsed(text, change)


@cache
def _parsed(text: str, change: bytes) -> Plan:
    return parse(text, change=msgspec.json.decode(change))


def run_jobs(
    jobs: Sequence[tuple[Job, tuple[object, ...]]],
    processes: int,
    tick: Tick,
    *,
    keep_going: bool = False,
    first: Callable[[], None] | None = None,
) -> dict[int, str]:
    """Run every job once; each is called with its arguments and a `tick` that reports progress.

    With one process they run here, one after another. The first failure stops the rest: finished work is on disk, so
    nothing is lost. With `keep_going` a FedleakError does not stop the others, and is returned under its job's index.
    `first` is called in each worker process before it has a job, and so before it holds anything.
    """
    failed: dict[int, str] = {}

    def tolerate(place: int, error: FedleakError) -> None:
        if not keep_going:
            raise error
        failed[place] = str(error)

    if processes == 1 or len(jobs) <= 1:
        single_threaded()
        for place, (job, arguments) in enumerate(jobs):
            try:
                job(*arguments, tick)
            except FedleakError as error:
                tolerate(place, error)
        return failed
    context = fork_server()
    ticks = context.Queue()
    pool = ProcessPoolExecutor(
        min(processes, len(jobs)), mp_context=context, initializer=enter, initargs=(ticks, first)
    )
    try:
        with without_main():  # all workers are started here
            places = {pool.submit(work, job, arguments): place for place, (job, arguments) in enumerate(jobs)}
        pending: set[Future[None]] = set(places)
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            drain(ticks, tick)
            for future in done:
                try:
                    future.result()
                except FedleakError as error:
                    tolerate(places[future], error)
    except BrokenProcessPool as error:
        raise FedleakError(
            "a worker process was killed, perhaps because memory ran out; finished rounds are kept. "
            "Rerun the same command to resume (--jobs 1 needs less memory)"
        ) from error
    finally:
        stop(pool)
        drain(ticks, tick)
        ticks.close()
    return failed


def stop(pool: ProcessPoolExecutor) -> None:
    """Kill the workers at once: a trace survives that at any moment."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(timeout=10)


def drain(ticks: multiprocessing.queues.Queue[float], tick: Tick) -> None:
    """Forward the progress that the workers report."""
    while True:
        try:
            tick(ticks.get_nowait())
        except (queue.Empty, OSError):
            return


def enter(ticks: multiprocessing.queues.Queue[float], first: Callable[[], None] | None) -> None:
    """Initialise a worker process; only the main process handles Ctrl-C."""
    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    single_threaded()
    if first is not None:
        first()


def work(job: Job, arguments: tuple[object, ...]) -> None:
    """Run a job in a worker, which exits when the main process is gone: nobody would read its result."""
    parent = multiprocessing.parent_process()

    def tick(units: float) -> None:
        if parent is not None and not parent.is_alive():
            os._exit(1)
        if _ticks is not None:
            _ticks.put(units)

    job(*arguments, tick)
