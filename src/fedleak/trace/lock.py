"""One process at a time writes to an output folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from fedleak.errors import TraceError
from fedleak.trace.files import private_folder

__all__ = ["locked"]

# POSIX locks belong to the process, so the kernel does not stop a process from taking its own lock twice.
_held: set[Path] = set()


@contextlib.contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Lock an output folder for the duration of a run; the kernel releases the lock when the process ends.

    A POSIX record lock rather than flock: a worker process must not inherit it, or a killed run could not be resumed
    until its last orphan is gone. A lock that is taken is retried for `patience` seconds.
    """
    private_folder(folder)
    path = folder.resolve() / ".lock"
    if path in _held:
        # Before opening it: closing any descriptor of the file would drop the lock that this process holds on it.
        raise _taken(folder, str(os.getpid()))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise TraceError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    try:
        deadline = time.monotonic() + patience
        while not _take(descriptor):
            if time.monotonic() >= deadline:
                raise _taken(folder, os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown")
            time.sleep(0.1)
        os.ftruncate(descriptor, 0)
        with contextlib.suppress(OSError):  # the disk may be full; the number only helps to explain
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _taken(folder: Path, pid: str) -> TraceError:
    return TraceError(f"{folder} is in use by another run (process {pid}); wait for it, or choose another --out")
