"""Which of the arrays that a framework sends are weights, and how they make up the layers of a trace."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import BUFFERS, FloatArray, Layer, Layout, Params
from fedleak.errors import TraceError
from fedleak.trace.update_rows import BLOCK

__all__ = ["Arrays", "ArrayLayout"]

Arrays = Mapping[str, npt.NDArray[Any]]

_RUNNING = ("running_mean", "running_var")  # of BatchNorm, as torch calls them
_UNNAMED = re.compile(r"array-\d+")  # arrays that a framework sends as a plain list


@dataclass(frozen=True)
class ArrayLayout:
    """The layers of a recorded model, and where each array lies in them."""

    layout: Layout
    spans: Mapping[str, tuple[str, slice, tuple[int, ...]]]  # array -> layer, place in its flat vector, shape
    left_out: Mapping[str, str]  # arrays that are no weights, and why
    buffer: FloatArray = field(default_factory=lambda: np.empty(BLOCK, np.float32), compare=False, repr=False)

    @staticmethod
    def of(arrays: Arrays) -> ArrayLayout:
        """Layers are modules: `fc1.weight` and `fc1.bias` are tensors of the layer `fc1`."""
        left_out = {name: why for name, array in arrays.items() if (why := _not_weights(array))}
        layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
        homes: dict[str, tuple[str, str]] = {}
        for name, array in arrays.items():
            if name not in left_out:
                homes[name] = layer, tensor = _home(name)
                layers.setdefault(layer, []).append((tensor, tuple(array.shape)))
        if not layers:
            why = ", ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3]) or "no arrays were sent"
            raise TraceError(f"what the server sends holds no weights ({why})")
        layout = tuple(Layer(name, tuple(tensors)) for name, tensors in layers.items())
        by_name = {layer.name: layer for layer in layout}
        spans = {
            name: (layer, by_name[layer].span(tensor), tuple(arrays[name].shape))
            for name, (layer, tensor) in homes.items()
        }
        return ArrayLayout(layout, spans, left_out)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The layers that are not trained."""
        return tuple(layer.name for layer in self.layout if layer.name.endswith(BUFFERS))

    def empty(self) -> dict[str, FloatArray]:
        """A model of zeros, its layers one after another in one vector, so that a writer need not join them."""
        ends = np.cumsum([layer.size for layer in self.layout])
        flat = np.zeros(ends[-1], np.float32)
        return {layer.name: flat[end - layer.size : end] for layer, end in zip(self.layout, ends.tolist(), strict=True)}

    def model(self, arrays: Arrays, before: Params | None = None) -> dict[str, FloatArray]:
        """The arrays of a model as flat layers; an error names an array that does not fit.

        An array that is not there is as it was before: where clients send only some arrays back (adapters, a head), a
        server that averages what it is sent has no others from then on.
        """
        found = self.empty()
        for name, (layer, span, shape) in self.spans.items():
            if name in arrays:
                _require_shape(name, arrays[name], shape)
                found[layer][span] = arrays[name].reshape(-1)
            elif before is not None:
                found[layer][span] = before[layer][span]
        return found

    def holds(self, model: Params, arrays: Arrays) -> bool:
        """Whether arrays are this model, or a part of it, to the last bit."""
        return all(
            arrays[name].shape == shape and np.array_equal(_bits(model[layer][span]), _bits(arrays[name].reshape(-1)))
            for name, (layer, span, shape) in self.spans.items()
            if name in arrays
        )

    def check(self, arrays: Arrays) -> None:
        """Reject the reply of a client whose arrays do not fit the model."""
        for name, (_, _, shape) in self.spans.items():
            if name in arrays:
                _require_shape(name, arrays[name], shape)
                if why := _not_weights(arrays[name]):
                    raise TraceError(f"'{name}' is no longer an array of weights ({why})")

    def changes(
        self,
        index: int,
        sent: Params,
        arrays: Arrays,
        first: int,
        *,
        differences: bool,
        space: Callable[[int, int], FloatArray | None] | None = None,
    ) -> Iterator[tuple[int, FloatArray]]:
        """What a client changed in one layer, in blocks: place in its flat vector, values, which the next overwrites.

        Of what it did not send it changed nothing. Blocks keep the values in the processor's cache from here to the
        disk; `first` is how long the first one is. `space` may say where a block of the layer is to be.
        """
        parts, model = self.parts[index], sent[self.layout[index].name]
        flat = {name: arrays[name].reshape(-1) for name, _, _ in parts if name in arrays}
        size = parts[-1][2]
        start, stop = 0, min(first, size)
        while start < size:
            lent = None if space is None else space(index, stop - start)
            block = self.buffer[: stop - start] if lent is None else lent
            for name, begin, end in parts:
                low, high = max(begin, start), min(end, stop)
                if low < high:
                    out = block[low - start : high - start]
                    if name not in flat:
                        out.fill(0)
                    elif differences:
                        out[:] = flat[name][low - begin : high - begin]
                    else:
                        values = flat[name][low - begin : high - begin]
                        np.subtract(values, model[low:high], out=out, casting="same_kind")
            yield start, block
            start, stop = stop, min(stop + BLOCK, size)

    @functools.cached_property
    def parts(self) -> list[list[tuple[str, int, int]]]:
        """For each layer its arrays: name, and where they begin and end in its flat vector."""
        found: dict[str, list[tuple[str, int, int]]] = {layer.name: [] for layer in self.layout}
        for name, (layer, span, _) in self.spans.items():
            found[layer].append((name, span.start, span.stop))
        return list(found.values())


def _home(name: str) -> tuple[str, str]:
    """The layer and the tensor in it that an array is, as models of one's own are divided (federation.models.own)."""
    owner, _, tensor = name.rpartition(".")
    if tensor in _RUNNING:
        return f"{owner or 'model'}{BUFFERS}", tensor
    if not owner and _UNNAMED.fullmatch(name):
        return name, "value"
    return owner or "model", tensor


def _not_weights(array: npt.NDArray[Any]) -> str:
    """Why an array holds no weights; empty if it may."""
    if math.prod(array.shape) == 0:
        return "empty"
    if array.dtype.kind in "iub":
        return f"{array.dtype.name} values, which are counts or quantised: their difference means nothing"
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        return f"values of type {array.dtype.name}"
    return ""


def _require_shape(name: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if tuple(array.shape) != shape:
        raise TraceError(f"'{name}' has the shape {tuple(array.shape)}; it was {shape} before")


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
