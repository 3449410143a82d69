"""Read what a recorder wrote: the trace of a run, how it was recorded, and who its clients are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedleak.core import IntArray
from fedleak.errors import TraceError
from fedleak.record.key import CLIENTS, SALT, Known, read_key
from fedleak.record.state import RecorderState
from fedleak.trace.closed import Closed
from fedleak.trace.files import read_whole
from fedleak.trace.log import LOG
from fedleak.trace.reader import Trace

__all__ = ["Recording", "identity_of", "shortened"]

_LONGEST = 300  # characters of a text that a recorder or a client wrote, as it is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded run, `RUN/{trace/, key/, recorder.json}`; nothing in it is trusted."""

    folder: Path
    trace: Trace
    state: RecorderState | None  # None where recorder.json is missing
    known: Mapping[str, Known]  # by pseudonym; empty where the key is missing
    salt: bytes  # empty where the key is missing

    @staticmethod
    def open(path: str | Path) -> Recording:
        """Open a recorded run, or say what is wrong with it."""
        folder = Path(path).expanduser()
        if not folder.is_dir():
            what = "is a file, not the folder" if folder.exists() else "does not exist; name the folder"
            raise TraceError(f"{folder} {what} of a recorded run, with trace/, key/ and recorder.json in it")
        if not (folder / "trace" / "header.json").exists():
            hint = f"; did you mean {folder.parent}?" if (folder / "header.json").exists() else ""
            raise TraceError(
                f"{folder} is not a recorded run: it has no trace/header.json. A recorder writes it once the first "
                f"round is over{hint}"
            )
        closed = Closed.load(folder / "trace")  # before the trace, which may grow while the run goes on
        trace = Trace.open(folder / "trace")
        if closed is not None and trace.rounds < closed.rounds:
            raise TraceError(
                f"{folder / 'trace' / LOG} is truncated: the recording was closed after {closed.rounds} rounds, and "
                f"the log has {trace.rounds}; restore it from a copy"
            )
        state = RecorderState.load(folder) if (folder / "recorder.json").exists() else None
        known = {one.client: one for one in read_key(folder / "key")} if (folder / "key" / CLIENTS).exists() else {}
        salt = read_whole(folder / "key" / SALT).strip() if (folder / "key" / SALT).exists() else b""
        return Recording(folder=folder, trace=trace, state=state, known=known, salt=salt)

    @property
    def identity(self) -> str:
        """A digest of the trace: its log holds the checksum of everything else, and grows while the run goes on."""
        return identity_of(self.folder)

    @property
    def seed(self) -> int:
        """A seed that nobody can derive from the trace without the key."""
        return int.from_bytes(hashlib.blake2b(self.identity.encode(), key=self.salt[:64], digest_size=16).digest())

    @property
    def participations(self) -> IntArray:
        """By client index: in how many rounds its update was recorded."""
        return np.bincount(np.asarray(self.trace.client), minlength=len(self.trace.header.clients)).astype(np.int64)

    @property
    def rounds_with_updates(self) -> IntArray:
        """The rounds in which the update of some client was recorded; all others only have their models."""
        return np.unique(self.trace.round).astype(np.int64)

    @property
    def unfinished(self) -> str:
        """Why the recording may lack rounds, in words; empty where it was closed in the usual way."""
        closed = Closed.load(self.folder / "trace")
        if closed is None:
            return "the recording was not closed: the run goes on, or its server was killed"
        return f"the recording ended early: {shortened(closed.reason)}" if closed.reason else ""

    @property
    def origin(self) -> dict[str, str]:
        """What trained the run: framework, version, strategy."""
        return {shortened(key): shortened(value) for key, value in self.trace.header.origin.items()}

    def name(self, client: str) -> str | None:
        """The partition of a client, or else the id of its node; None where the key does not know it."""
        known = self.known.get(client)
        return None if known is None else known.partition or known.node


def identity_of(folder: Path) -> str:
    """The digest of a recorded run's trace, without opening it."""
    digest = hashlib.sha256()
    for name in ("header.json", LOG):
        digest.update(read_whole(folder / "trace" / name))
    return digest.hexdigest()


def shortened(text: str) -> str:
    """A text from elsewhere as it may be shown: one line, printable, not too long."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 3] + "..."
