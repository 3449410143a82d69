"""Pseudonyms of users: the names under which results and reports speak of them.

A pseudonym is a keyed hash of the name, so that it stays the same within an audit, differs between audits, and cannot
be recomputed from a list of names without the key. The key lies with the runs, where the truth is, and is never written
to a result.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fedleak.errors import TraceError
from fedleak.trace.files import private_folder, read_whole, write_atomic

__all__ = ["PATTERN", "Pseudonyms", "restored"]

PATTERN = re.compile(r"\b(?:user|client)-[0-9a-f]{8}\b")
_NAME = "names.json"


class _Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str  # hexadecimal
    names: dict[str, str] = {}  # pseudonym -> name


@dataclass(slots=True, kw_only=True)
class Pseudonyms:
    """The pseudonyms of one audit; `save` keeps those that were given, so that names can be shown again."""

    path: Path
    key: bytes
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, out: Path) -> Pseudonyms:
        """The pseudonyms of an output folder; an audit without a key gets one."""
        path = out / "runs" / _NAME
        if not path.exists():
            return cls(path=path, key=secrets.token_bytes(32))
        kept = _read(path)
        return cls(path=path, key=kept[0], names=kept[1])

    def of(self, name: str, unit: str = "user") -> str:
        """The pseudonym of a user, or of a client where clients are what is asked for."""
        turn = 0
        while True:
            digest = hmac.new(self.key, f"{unit}\0{turn}\0{name}".encode("utf-8", "surrogatepass"), hashlib.sha256)
            given = f"{unit}-{digest.hexdigest()[:8]}"
            if self.names.setdefault(given, name) == name:
                return given
            turn += 1  # two names with the same eight digits

    def all_of(self, users: Iterable[str]) -> dict[str, str]:
        """Name -> pseudonym of these users, and save them."""
        given = {str(user): self.of(str(user)) for user in users}
        self.save()
        return given

    def save(self) -> None:
        """Write the key and the names, readable only by their owner."""
        private_folder(self.path.parent)
        known = _read(self.path)[1] if self.path.exists() else {}
        content = _Key(key=self.key.hex(), names=dict(sorted((known | self.names).items())))
        write_atomic(self.path, msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def _read(path: Path) -> tuple[bytes, dict[str, str]]:
    try:
        kept = msgspec.json.decode(read_whole(path), type=_Key)
        return bytes.fromhex(kept.key), kept.names
    except (msgspec.DecodeError, ValueError) as error:
        raise TraceError(
            f"{path} is damaged ({error}); delete it and run `fedleak score`, which gives users new pseudonyms"
        ) from error


def restored(text: str, names: Mapping[str, str]) -> str:
    """A text with names instead of the pseudonyms that are known.

    >>> restored("user-0a1b2c3d is taken for user-ffffffff", {"user-0a1b2c3d": "Ann"})
    'Ann is taken for user-ffffffff'
    """
    return PATTERN.sub(lambda found: names.get(found[0], found[0]), text)
