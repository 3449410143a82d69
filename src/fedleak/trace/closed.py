"""How the recording of a run ended: `closed.json`, which a recorder writes last."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedleak.trace.sealed import seal, unseal

__all__ = ["Closed"]

_KIND, _VERSION, _FILE = "fedleak-closed", 1, "closed.json"


class Closed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a recording. A trace without it belongs to a run that goes on, or that was killed."""

    rounds: int
    reason: str = ""  # why it ended early; empty where it did not

    def save(self, folder: Path) -> None:
        """Write it beside the rounds."""
        seal(folder / _FILE, _KIND, _VERSION, self)

    @staticmethod
    def load(folder: Path) -> Closed | None:
        """Read it; None where the recording has not ended."""
        return unseal(folder / _FILE, _KIND, _VERSION, Closed) if (folder / _FILE).exists() else None

    @staticmethod
    def reopen(folder: Path) -> None:
        """Remove it: more rounds follow."""
        (folder / _FILE).unlink(missing_ok=True)
