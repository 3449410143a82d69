"""Take from this process, for good, the files and sockets that it does not need.

On Linux two features of the kernel do it without privileges: Landlock (Salaün, 2021) for files, TCP and signals, and a
seccomp filter for every other kind of socket, since Landlock does not stop a connection to a socket in the file system.
Both hold for the calling thread and whatever it starts, so a process confines itself before it has a second thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Confinement", "confine", "landlock_version"]

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
_RULE_PATH_BENEATH, _VERSION_FLAG = 1, 1
_WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = (
    1 << bit for bit in (1, 2, 3, 4, 5, 7, 8)
)
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ALL_FILES = (1 << 13) - 1  # version 1
_FILE_RIGHTS = _WRITE_FILE | _READ_FILE | _TRUNCATE  # what can be granted on something that is no folder
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS = 0b11, 0b11

# By machine: the architecture as the audit subsystem numbers it, and the calls that a filter refuses: socket, and
# io_uring_setup, by which a socket could be had without the first.
_CALLS = {"x86_64": (0xC000003E, (41, 425)), "aarch64": (0xC00000B7, (198, 425))}
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 13  # EACCES


class Confinement:
    """What a process gave up, in words for the result; empty where the system offers nothing."""

    def __init__(self, files: str = "", sockets: str = "") -> None:
        self.files, self.sockets = files, sockets

    @property
    def complete(self) -> bool:
        """Whether neither files nor sockets beyond what was granted can be reached."""
        return bool(self.files and self.sockets)

    def __str__(self) -> str:
        return ", ".join(part for part in (self.files, self.sockets) if part)


def landlock_version() -> int:
    """The version of Landlock that the kernel offers; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def confine(readable: Iterable[Path], writable: Iterable[Path]) -> Confinement:
    """Leave this process only these files and folders, and no sockets; what is open already stays open."""
    version = landlock_version()
    if sys.platform != "linux" or _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return Confinement()
    files = f"Landlock {version}" if version and _restrict(version, readable, writable) else ""
    return Confinement(files, "seccomp" if _filter() else "")


def _restrict(version: int, readable: Iterable[Path], writable: Iterable[Path]) -> bool:
    handled = _ALL_FILES | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0)
    handled |= _IOCTL if version > 4 else 0
    rules = struct.pack("=QQQ", handled, _BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS)
    size = 24 if version > 5 else 16 if version > 3 else 8
    ruleset = _call(_CREATE_RULESET, rules[:size], size, 0)
    if ruleset < 0:
        return False
    try:
        for rights, paths in ((_READ, readable), (_WRITE, writable)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        return _call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there cannot be read
    try:
        granted = rights if path.is_dir() else rights & _FILE_RIGHTS
        _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", granted, descriptor), 0)
    finally:
        os.close(descriptor)


def _filter() -> bool:
    """Refuse the calls that make a socket; on a machine whose calls are not known here, nothing is changed."""
    if platform.machine() not in _CALLS:
        return False
    machine, refused = _CALLS[platform.machine()]
    last = 5 + len(refused)  # the place of the refusal, to which every test jumps
    program = [
        (_LOAD, 0, 0, 4),  # the architecture of the call: one of another numbering is refused whatever it is
        (_EQUAL, 0, last - 2, machine),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_AT_LEAST, last - 4, 0, 0x40000000),  # the second numbering of x86_64 (x32)
        *((_EQUAL, last - 5 - place, 0, number) for place, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    return int(_libc().prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)) == 0


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    return int(_libc().syscall(number, *arguments))
