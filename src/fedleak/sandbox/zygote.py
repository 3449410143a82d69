"""A process that has the libraries loaded and nothing else, and forks one child for every attack.

A fresh interpreter would need seconds to import torch for each attack. A fork of the process that audits would hold the
truth in its memory. A zygote is forked before there is anything to hide: from a worker process that has not begun its
first job, or from the fork server of the main process.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
import time
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from fedleak.sandbox.confined import AttackJob, message, run_job
from fedleak.sandbox.fork_server import single_threaded

__all__ = ["FROM_ATTACK", "FROM_ZYGOTE", "serve", "fork_zygote", "request"]

FROM_ATTACK, FROM_ZYGOTE = b"a", b"z"  # the first byte of what is sent: an attack must not forge its own end
_CHUNK = 1 << 16
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt, in glibc
_SLOWER = 20  # a child may wait so many times longer than it may compute, on a loaded machine


def fork_zygote(mine: Connection, theirs: Connection) -> int:
    """Fork this process while it holds nothing; returns the child's number, and never in the child."""
    number = os.fork()
    if number == 0:
        try:
            mine.close()
            serve(theirs)
        finally:
            os._exit(1)
    theirs.close()
    return number


def serve(connection: Connection) -> None:
    """Fork a child for every job that arrives, until the connection is closed; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then closes the connection
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _close_all_but(connection.fileno())
    single_threaded()
    keep_memory()
    while True:
        try:
            job = AttackJob(**json.loads(connection.recv_bytes()))
        except (EOFError, OSError):
            os._exit(0)
        _serve_one(job, connection)


def _serve_one(job: AttackJob, connection: Connection) -> None:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _close_all_but(writes)
            run_job(job, lambda data: _write(writes, message(data)))
        finally:
            os._exit(0)
    os.close(writes)
    ended = _relay(reads, connection, time.monotonic() + _SLOWER * 60 * job.minutes)
    os.close(reads)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # whatever it started
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status, used = os.wait4(child, 0)
    if ended == "gone":
        os._exit(0)
    said = {
        "exit": os.waitstatus_to_exitcode(status),
        "late": ended == "late",
        "seconds": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }
    connection.send_bytes(FROM_ZYGOTE + message(said))


def _relay(reads: int, connection: Connection, deadline: float) -> str:
    """Pass on what the child says, unread, until it closes its end, its time is up, or nobody listens any more."""
    with selectors.DefaultSelector() as selector:
        selector.register(reads, selectors.EVENT_READ)
        selector.register(connection.fileno(), selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(min(left, 60)):
                if key.fd == connection.fileno():
                    return "gone"
                data = os.read(reads, _CHUNK)
                if not data:
                    return "closed"
                connection.send_bytes(FROM_ATTACK + data)
    return "late"


def keep_memory() -> None:
    """Let the C library reuse memory from the start: it learns to only after a while, which a child has not got.

    Without this every large array is mapped anew, and the page faults cost an attack a fifth of its time.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        for setting, value in ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 512 << 20)):
            libc.mallopt(setting, value)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _close_all_but(kept: int) -> None:
    """Close every inherited descriptor; an open file is not covered by any confinement."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nowhere, standard)
    highest = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, kept)
    os.closerange(kept + 1, highest if highest > 0 else 1 << 16)


def request(job: AttackJob) -> bytes:
    """A job as it is sent."""
    data: dict[str, Any] = asdict(job)
    return json.dumps(data).encode()
