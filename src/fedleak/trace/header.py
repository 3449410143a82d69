"""What a trace says about itself before its first round, and the files that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np

from fedleak.core import FloatArray, IntArray, Layer, Layout, Observation, Params, Task
from fedleak.trace.sealed import seal, unseal

__all__ = ["FORMAT", "VERSION", "Header", "TraceTable", "Per"]

FORMAT = "fedleak-trace"
VERSION = 2

# Offsets are 64-bit; with this bound on a row, no number of rows that fits on a disk can overflow them.
_LARGEST_ROW = 1 << 40

Per: TypeAlias = Literal["model", "round", "client", "note"]


@dataclass(frozen=True, slots=True)
class TraceTable:
    """One append-only file of a trace: rows of one kind, all of one size."""

    name: str  # of the file; numbered rather than named by layer, so that no layer name can point elsewhere
    observation: str  # what its content shows: snapshots, aggregates, client, shadow, size, updates, notes
    per: Per  # one row for every model (round 0 too), round or client; notes are lines of any length
    row: int  # bytes

    def end(self, round_number: int, clients: int, notes: int) -> int:
        """Where the file ends once a round is complete; the counts run from the start of the trace."""
        counts = {"model": round_number + 1, "round": round_number, "client": clients, "note": notes}
        return counts[self.per] * self.row

    def ends(self, round_numbers: IntArray, clients: IntArray, notes: IntArray) -> IntArray:
        """The same for many rounds at once."""
        counts = {"model": round_numbers + 1, "round": round_numbers, "client": clients, "note": notes}
        return counts[self.per] * self.row


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The public part of a run: its model, its settings, and the pseudonyms of its clients.

    Which user a client belongs to is never here; it is in the truth, in a separate folder. Which clients the adversary
    runs itself, on data it already knows, is here: it knows its own clients.
    """

    fingerprint: str  # of the plan and the seed; a folder is only resumed by the plan that began it
    # How many the finished run has; None where nobody knew beforehand: the run is over once the trace is closed.
    rounds: Annotated[int, msgspec.Meta(ge=1)] | None
    task: Task | None  # None in a recorded run, whose recorder sees arrays only
    model: str
    layout: Layout
    clients: tuple[str, ...]  # pseudonyms, by client index; with `rounds` None, more may join (Trace.open)
    shadow: tuple[int, ...]  # by client index: which candidate's data the adversary put on it; -1 for everyone else's
    settings: Mapping[str, Any] = {}  # of the federation, as every client knows them
    defences: tuple[Mapping[str, Any], ...] = ()
    hidden: tuple[str, ...] = ()  # observations that the defences remove for every adversary, by name
    tampering: tuple[Mapping[str, Any], ...] = ()
    dtype: Literal["float32", "float16"] = "float32"  # of the recorded updates
    holds_updates: bool = True  # False: the channel let only sums through
    mean_changed: bool = False  # a defence changed the mean of a round, or what the server sees of the updates in it
    origin: Mapping[str, str] = {}  # what another framework trained it: framework, version, strategy; empty: Fedleak
    buffers: tuple[str, ...] = ()  # layers that are not trained but counted, such as the running mean of BatchNorm
    unrecorded: tuple[str, ...] = ()  # layers whose updates the recorder left out; they are zeros, and take no space
    beside: bool = False  # shadow clients were trained beside the run: they are in no mean and in no selection
    every: Annotated[int, msgspec.Meta(ge=1)] = 1  # updates were recorded in every k-th round; snapshots in all

    def __post_init__(self) -> None:
        """Reject what no run can have written; a header may come from anywhere."""
        if not self.layout or len(self.layout) > 100_000:
            raise ValueError(f"a model has 1 to 100,000 layers, not {len(self.layout)}")
        if len({layer.name for layer in self.layout}) < len(self.layout):
            raise ValueError("two layers have the same name")
        if any(extent < 0 for layer in self.layout for _, shape in layer.tensors for extent in shape):
            raise ValueError("a tensor has a negative extent")
        if any(layer.size < 1 for layer in self.layout) or self.size * 4 > _LARGEST_ROW:
            raise ValueError(f"a layer is empty, or the model has more than {_LARGEST_ROW // 4} parameters")
        if len(set(self.clients)) < len(self.clients) or len(self.shadow) != len(self.clients):
            raise ValueError("every client needs a unique pseudonym and a shadow index")
        if unknown := set(self.hidden) - set(Observation.__members__):
            raise ValueError(f"there is no observation '{min(unknown)}' to hide")
        if any(index < -1 or index >= 1 << 31 for index in self.shadow):
            raise ValueError("a shadow index is out of range")
        if unknown := {*self.buffers, *self.unrecorded} - {layer.name for layer in self.layout}:
            raise ValueError(f"there is no layer '{min(unknown)}'")

    @property
    def size(self) -> int:
        """How many parameters the model has."""
        return sum(layer.size for layer in self.layout)

    @property
    def weights_follow(self) -> bool:
        """Whether the updates and the mean of a round determine how many examples each update counts for.

        Not where all count the same, where a defence adds noise to the mean or masks the updates, or where a client is
        isolated, whose update is not in the mean.
        """
        isolated = any(one.get("power") == "isolate" for one in self.tampering)
        return self.settings.get("weighting") == "examples" and not self.mean_changed and not isolated

    def tables(self) -> tuple[TraceTable, ...]:
        """The files of the trace, in the order of the checksums in its log."""
        width = 4 if self.dtype == "float32" else 2
        layers: tuple[Layer, ...] = self.layout if self.holds_updates else ()
        return (
            TraceTable("snapshots.bin", "snapshots", "model", 4 * self.size),
            TraceTable("aggregates.bin", "aggregates", "round", 4 * self.size),
            TraceTable("client.bin", "client", "client", 4),
            TraceTable("shadow.bin", "shadow", "client", 4),
            TraceTable("size.bin", "size", "client", 4),
            TraceTable("notes.jsonl", "notes", "note", 1),
            *(
                TraceTable(f"update-{n:03}.bin", "updates", "client", width * layer.size)
                for n, layer in enumerate(layers)
            ),
        )

    def split(self, model: FloatArray) -> Params:
        """Split a whole model, as stored in the tables, into its layers."""
        ends = np.cumsum([layer.size for layer in self.layout])[:-1]
        return {layer.name: part for layer, part in zip(self.layout, np.split(model, ends), strict=True)}

    def save(self, folder: Path) -> None:
        """Write header.json."""
        seal(folder / "header.json", FORMAT, VERSION, self)

    @staticmethod
    def load(folder: Path) -> Header:
        """Read header.json; a TraceError says whether it is foreign, too new or damaged."""
        return unseal(folder / "header.json", FORMAT, VERSION, Header)
