"""What a recorder is told of a client, and what it says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from fedleak.errors import TraceError
from fedleak.record.arrays import Arrays
from fedleak.trace.files import read_whole, write_atomic

__all__ = ["Reply", "RecorderState"]

_FILE = "recorder.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What one client sent back after training."""

    client: str  # as the framework knows it: a node id, a client's name
    arrays: Arrays  # its weights by name, or their differences from the model that it was sent
    examples: int | None = None  # how many it trained on
    partition: str | None = None  # of the data, where the client told it (`identify`)
    differences: bool = False  # whether the arrays are differences


class RecorderState(msgspec.Struct, frozen=True, kw_only=True):
    """`recorder.json`: how a run is recorded, and how far; nothing of who is who."""

    origin: Mapping[str, str]
    dtype: str
    every: int
    layers: list[str] | None
    sums: bool
    state: Literal["recording", "closed", "partial"]
    rounds: int = 0
    reason: str = ""
    left_out: Mapping[str, str] = {}  # arrays that are not in the trace, and why
    notes: list[str] = []

    def save(self, folder: Path) -> None:
        """Write `recorder.json`."""
        write_atomic(folder / _FILE, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def load(folder: Path) -> RecorderState:
        """Read `recorder.json` of a recorded run."""
        path = folder / _FILE
        try:
            return msgspec.json.decode(read_whole(path), type=RecorderState)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"{path} is damaged, or Fedleak did not write it ({error})") from error
