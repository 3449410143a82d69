"""How all packages write to disk: atomically, and readable by the owner only."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from fedleak.errors import FedleakError, TraceError

__all__ = ["private_folder", "write_atomic", "open_regular", "read_whole"]

# Far above any header or truth that a run writes, far below what would hurt: a hostile file must not exhaust memory.
_LARGEST = 1 << 28


def private_folder(folder: Path) -> None:
    """Create a folder, with its missing parents, that only its owner may enter, whatever the umask."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)
    except OSError as error:
        raise FedleakError(f"cannot create the folder {folder}: {error.strerror}; choose another --out") from error
    if not folder.is_dir():
        raise FedleakError(f"{folder} is a file, not a folder; choose another --out")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part, even after a crash."""
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        temporary = Path(name)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _remove(temporary)
        raise FedleakError(f"cannot write {path}: {error.strerror}") from error
    except BaseException:
        _remove(temporary)
        raise


def _sync_folder(folder: Path) -> None:
    # The rename itself must reach the disk, or a power failure could bring the old name back.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(temporary: Path | None) -> None:
    if temporary is not None:
        with contextlib.suppress(OSError):
            temporary.unlink()


def open_regular(path: Path) -> int:
    """Open a file for reading, rejecting pipes and devices: a trace from elsewhere must not make its reader hang."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise TraceError(f"{path} is missing; restore it from a copy, or record the run again elsewhere") from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise TraceError(f"{path} is not a regular file, so Fedleak did not write it")
    return descriptor


def read_whole(path: Path) -> bytes:
    """Read a small file, rejecting one that is too large to be what its name says."""
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > _LARGEST:
            raise TraceError(f"{path} is larger than {_LARGEST >> 20} MiB, so Fedleak did not write it")
        return file.read(size)
