"""The updates of a trace in columns, as one adversary observes them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, Observation
from fedleak.trace.reader import Trace

__all__ = ["Updates"]


class Updates:
    """The updates of a run in columns, one row each, in an order that reveals nothing about their senders."""

    def __init__(
        self, trace: Trace, observations: Observation, shadow: IntArray | None = None, rows: IntArray | None = None
    ) -> None:
        self._trace = trace
        self._observations = observations
        self._shadow = shadow
        self._rows = rows  # in increasing order; None: all of them

    def __len__(self) -> int:
        return len(self.round)

    @cached_property
    def round(self) -> IntArray:
        """The round of each update."""
        return _frozen(self._cut(self._trace.round))

    @cached_property
    def handle(self) -> npt.NDArray[np.uint64]:
        """The handle of each update's sender: stable for its client, or a fresh one for every update."""
        if Observation.LINKS in self._observations:
            return _frozen(self._cut(self._trace.client).astype(np.uint64))
        # A bijection of the row number: no two updates share a handle, and no handle depends on its sender.
        key = np.uint64(zlib.crc32(self._trace.header.fingerprint.encode()))
        return _frozen(_scramble(np.arange(len(self), dtype=np.uint64) + (key << np.uint64(32))))

    @cached_property
    def shadow(self) -> IntArray:
        """The candidate on whose data an update was trained, if a shadow client sent it; otherwise -1."""
        if self._shadow is not None:
            return _frozen(self._shadow.astype(np.int64))
        return _frozen(self._cut(self._trace.shadow).astype(np.int64))

    @cached_property
    def size(self) -> IntArray | None:
        """How many examples each update was trained on; None if the adversary is not told."""
        if Observation.SIZES not in self._observations:
            return None
        return _frozen(self._cut(self._trace.size).astype(np.int64))

    def layer(self, name: str) -> FloatArray:
        """One layer of every update, (updates, size), read-only; mapped from disk where it is stored as float32."""
        if self._trace.header.dtype == "float32" and self._rows is None:
            return self._trace.updates(name)
        size = next((layer.size for layer in self._trace.header.layout if layer.name == name), 0)
        values = np.empty((len(self), size), np.float32)
        start = 0
        for block in self.blocks(name):
            values[start : start + len(block)] = block
            start += len(block)
        return _frozen(values)

    def blocks(self, name: str, rows: int | None = None) -> Iterator[FloatArray]:
        """The same in blocks of rows, for layers that do not fit in memory."""
        if self._rows is None:
            yield from self._trace.blocks(name, rows)
            return
        start = 0
        for block in self._trace.blocks(name, rows):
            first, last = np.searchsorted(self._rows, [start, start + len(block)])
            yield block[self._rows[first:last] - start]
            start += len(block)

    def _cut(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self._rows is None else column[self._rows]


def _frozen(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    values.flags.writeable = False
    return values


def _scramble(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix 64-bit numbers one to one (the finaliser of SplitMix64; Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
