"""Who is who in a recorded run: `key/`, which only the auditor reads.

`key/clients.jsonl` has one line for each client, and one more where more becomes known of it:

    {"client": "c-1f2e3d4c", "node": "7421009", "partition": "3"}
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fedleak.errors import TraceError
from fedleak.trace.files import private_folder, read_whole, write_atomic

__all__ = ["Known", "Key", "read_key", "CLIENTS", "SALT"]

CLIENTS, SALT = "clients.jsonl", "salt"


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the framework knows of a client."""

    client: str  # pseudonym
    node: str
    partition: str | None = None


@dataclass(slots=True)
class Key:
    """Pseudonyms of clients, the same in every start of one recording."""

    folder: Path
    salt: bytes
    by_node: dict[str, Known]

    @staticmethod
    def open(folder: Path) -> Key:
        """Begin a key, or go on with one."""
        private_folder(folder)
        if not (folder / SALT).exists():
            write_atomic(folder / SALT, secrets.token_hex(32).encode() + b"\n")
        by_node: dict[str, Known] = {}
        if (folder / CLIENTS).exists():
            whole = read_whole(folder / CLIENTS)
            if not whole.endswith(b"\n"):  # of a process that was killed; the next line must not continue it
                os.truncate(folder / CLIENTS, whole.rfind(b"\n") + 1)
            by_node = {known.node: known for known in read_key(folder)}
        return Key(folder, read_whole(folder / SALT).strip(), by_node)

    def pseudonym(self, node: str, partition: str | None = None) -> str:
        """The pseudonym of a client; whoever it is reaches the disk before the pseudonym is used anywhere."""
        known = self.by_node.get(node)
        if known is None or (partition is not None and partition != known.partition):
            known = Known(known.client if known else self._new(node), node, partition)
            self._write(known)
            self.by_node[node] = known
        return known.client

    def _new(self, node: str) -> str:
        taken = {known.client for known in self.by_node.values()}
        digest = hmac.new(self.salt, node.encode(), hashlib.sha256).hexdigest()
        # Eight digits, or another eight in the rare case that two clients would share them.
        return next(name for at in range(0, 57, 8) if (name := f"c-{digest[at : at + 8]}") not in taken)

    def _write(self, known: Known) -> None:
        path = self.folder / CLIENTS
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(descriptor, 0o600)
                os.write(descriptor, msgspec.json.encode(known) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise TraceError(f"cannot write {path}: {error.strerror}") from error


def read_key(folder: Path) -> list[Known]:
    """Every line of a key; a last line that a killed process left half-written does not count."""
    path = folder / CLIENTS
    lines = read_whole(path).split(b"\n")[:-1]
    try:
        return [msgspec.json.decode(line, type=Known) for line in lines if line]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} is damaged, or Fedleak did not write it ({error})") from error
