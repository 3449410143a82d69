"""What the adversary already knows about the candidates: some of their examples, from another source."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, Task, UserId
from fedleak.errors import TraceError
from fedleak.population.population import Examples, Records
from fedleak.trace.files import open_regular, private_folder, write_atomic
from fedleak.trace.sealed import seal, unseal

__all__ = ["Prior", "Background", "Reference"]

_KIND, _VERSION, _FILE = "fedleak-prior", 1, "prior.json"
_COLUMNS = tuple(column.name for column in fields(Examples))
_SHOWN = ("x", "y", "owner")  # what is kept of background examples


class _Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    candidates: tuple[str, ...]
    counts: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]  # examples of each candidate
    columns: Mapping[str, int]  # column -> CRC-32 of its .npy file
    task: Task
    outputs: Annotated[int, msgspec.Meta(ge=1)]
    attributes: tuple[Mapping[str, str], ...] = ()
    background: Mapping[str, int] = {}  # column -> CRC-32 of its file; none where there is no background
    records: Records | None = None
    injected: Mapping[str, str] = {}
    traits: tuple[str, ...] = ()  # the columns of what background examples show
    proxies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Public examples from other users, and which traits they show."""

    examples: Examples
    shows: Mapping[str, npt.NDArray[np.int8]]  # trait -> by example: 1 shows it, 0 does not, -1 could not


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A federation of other users that the adversary trained itself: it knows its models and its data."""

    rounds: IntArray  # of these models, in increasing order; the last one is that of the finished model
    models: Mapping[str, FloatArray]  # layer -> (rounds, size)
    clients: tuple[Examples, ...]  # what each client trained on


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """One set of labelled examples per candidate; shadow clients train on them."""

    candidates: tuple[UserId, ...]
    examples: tuple[Examples, ...]  # by candidate
    task: Task
    outputs: int  # classes, vocabulary size, or 1
    attributes: tuple[Mapping[str, str], ...] = ()  # by candidate: attributes of the user; () where none are known
    background: Background | None = None
    records: Records | None = None  # the format of the secrets, where users hold some
    injected: Mapping[str, str] = field(default_factory=dict)  # client -> the record that the adversary injected there
    # Traits of proxy clients. Their shadow indices follow those of the candidates: for each trait first the clients
    # with it, then those without.
    proxies: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()  # handed to attacks by the pipeline, and in no file

    def take(self, candidates: IntArray) -> Prior:
        """The prior of an adversary that knows only these candidates, in this order.

        Background and records are left out: a game that gives them to the adversary does so in its questions. So are
        injected records, which only a view shows, to an adversary with the capability.
        """
        return replace(
            self,
            candidates=tuple(self.candidates[i] for i in candidates),
            # Copies: a slice of the whole would give access to all users' data.
            examples=tuple(self.examples[i].take(np.arange(len(self.examples[i]))) for i in candidates),
            attributes=tuple(self.attributes[i] for i in candidates) if self.attributes else (),
            background=None,
            records=None,
            injected={},
            proxies=(),
        )

    def save(self, folder: Path) -> None:
        """Write each column of all candidates as one .npy file, then the index that makes them valid."""
        private_folder(folder)
        checksums: dict[str, int] = {}
        behind: dict[str, int] = {}
        traits: tuple[str, ...] = ()
        for name in _COLUMNS:
            parts = [getattr(examples, name) for examples in self.examples]
            if all(part is None for part in parts):
                continue
            if any(part is None for part in parts):
                raise ValueError(f"some candidates have '{name}' and others do not")
            checksums[name] = _save(folder / f"{name}.npy", np.concatenate(parts))
        if self.background is not None:
            traits = tuple(self.background.shows)
            for name in _SHOWN:
                if (column := getattr(self.background.examples, name)) is not None:
                    behind[name] = _save(folder / f"background-{name}.npy", column)
            seen = np.array([self.background.shows[trait] for trait in traits], dtype=np.int8)
            shape = (len(self.background.examples), len(traits))
            behind["shows"] = _save(folder / "background-shows.npy", seen.T.reshape(shape))
        content = _Content(
            candidates=self.candidates,
            counts=tuple(map(len, self.examples)),
            columns=checksums,
            task=self.task,
            outputs=self.outputs,
            attributes=self.attributes,
            background=behind,
            records=self.records,
            injected=dict(self.injected),
            traits=traits,
            proxies=self.proxies,
        )
        seal(folder / _FILE, _KIND, _VERSION, content)

    @staticmethod
    def load(folder: Path) -> Prior:
        """Read a prior back and check that its parts fit together."""
        content = unseal(folder / _FILE, _KIND, _VERSION, _Content)
        path = folder / _FILE
        if len(content.counts) != len(content.candidates) or len(set(content.candidates)) < len(content.candidates):
            raise TraceError(f"{path} does not give the number of examples of every candidate")
        if content.attributes and len(content.attributes) != len(content.candidates):
            raise TraceError(f"{path} has attributes of {len(content.attributes)} for {len(content.candidates)} users")
        # Without candidates there are no columns.
        if ("x" in content.columns) != bool(content.candidates) or not set(content.columns) <= set(_COLUMNS):
            raise TraceError(f"{path} names the columns {', '.join(content.columns)}; known: {', '.join(_COLUMNS)}")
        columns = {name: _load(folder / f"{name}.npy", crc) for name, crc in content.columns.items()}
        for name, column in columns.items():
            if len(column) != sum(content.counts):
                raise TraceError(f"{folder / name}.npy has {len(column)} rows; {path} says {sum(content.counts)}")
        whole = Examples(**columns) if columns else Examples(x=np.zeros(0))
        ends = np.cumsum(content.counts, dtype=np.int64)
        return Prior(
            candidates=tuple(map(UserId, content.candidates)),
            examples=tuple(
                whole.take(slice(int(end) - count, int(end))) for end, count in zip(ends, content.counts, strict=True)
            ),
            task=content.task,
            outputs=content.outputs,
            attributes=content.attributes,
            background=_background(folder, content) if content.background else None,
            records=content.records,
            injected=content.injected,
            proxies=content.proxies,
        )


def _background(folder: Path, content: _Content) -> Background:
    path = folder / _FILE
    if not {"x", "shows"} <= set(content.background) <= {*_SHOWN, "shows"}:
        raise TraceError(f"{path} names the background columns {', '.join(content.background)}")
    columns = {name: _load(folder / f"background-{name}.npy", crc) for name, crc in content.background.items()}
    shows = columns.pop("shows")
    if shows.shape != (len(columns["x"]), len(content.traits)) or any(len(c) != len(shows) for c in columns.values()):
        raise TraceError(f"{path}: the columns of the background differ in length; restore it from a copy")
    return Background(
        examples=Examples(**columns),
        shows={trait: shows[:, i].astype(np.int8) for i, trait in enumerate(content.traits)},
    )


def _save(path: Path, column: npt.NDArray[Any]) -> int:
    buffer = io.BytesIO()
    np.save(buffer, column, allow_pickle=False)
    write_atomic(path, buffer.getvalue())
    return zlib.crc32(buffer.getbuffer())


def _load(path: Path, crc: int) -> npt.NDArray[Any]:
    with open(open_regular(path), "rb") as file:
        found = 0
        while block := file.read(1 << 20):
            found = zlib.crc32(block, found)
    if found != crc:
        raise TraceError(f"{path} is damaged (checksum); restore it from a copy, or record the run again")
    try:
        # Mapped first: a header that promises more than the file holds is rejected before anything is allocated.
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        if mapped.ndim < 1 or mapped.dtype.kind not in "fiu":
            raise ValueError(f"an array of {mapped.dtype} is not a column of numbers")
        return np.array(mapped)
    except (ValueError, OSError, EOFError) as error:
        raise TraceError(f"{path} is not an array that Fedleak wrote: {error}") from error
