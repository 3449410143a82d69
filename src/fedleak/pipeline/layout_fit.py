"""Fit a model to a recorded run: which recorded array is which parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.core import BUFFERS, FloatArray, Layer, Layout, Params
from fedleak.errors import PlanError
from fedleak.federation.models.modules import Part

__all__ = ["Fit", "fit_layout", "matched", "outputs_hint"]

_UNNAMED = re.compile(r"array-(\d+)")  # arrays that a framework sent as a plain list


@dataclass(frozen=True, slots=True)
class _Array:
    """One recorded array, and where it lies."""

    name: str  # as the framework sent it
    shape: tuple[int, ...]
    layer: str
    span: slice


@dataclass(frozen=True, slots=True)
class Fit:
    """The layers of the model, each made of recorded arrays."""

    layout: Layout
    sources: Mapping[str, tuple[_Array, ...]]  # layer of the model -> the arrays of its tensors, in order
    unrecorded: tuple[str, ...]  # layers of the model whose updates the recorder left out

    def model(self, recorded: Params) -> dict[str, FloatArray]:
        """A recorded model, or one update, as layers of the model; anything else that was recorded is left out."""
        return {
            layer: np.concatenate([recorded[one.layer][one.span] for one in sources]).astype(np.float32, copy=False)
            for layer, sources in self.sources.items()
        }

    def row(self, updates: Mapping[str, npt.NDArray[np.generic]], row: int) -> dict[str, FloatArray]:
        """One recorded update, from columns that are mapped from disk."""
        return self.model({name: np.asarray(column[row]) for name, column in updates.items()})


def fit_layout(
    recorded: Layout, parts: Sequence[Part], unrecorded: Sequence[str], kept: Sequence[str], what: str
) -> Fit:
    """Match recorded arrays and parameters, by name, or by order and shape where the recorder had no names.

    `kept` are frozen parameters that the run holds other values of than the model; they are layers, too.
    """
    found = matched(recorded, parts, what)
    layers: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
    sources: dict[str, list[_Array]] = {}
    for part in parts:
        if part.kind == "trained" or part.path in kept:
            layer, tensor = part.home
            layers.setdefault(layer, []).append((tensor, part.shape))
            sources.setdefault(layer, []).append(found[part.path])
    hidden = set(unrecorded)
    return Fit(
        layout=tuple(Layer(name, tuple(tensors)) for name, tensors in layers.items()),
        sources={name: tuple(mine) for name, mine in sources.items()},
        unrecorded=tuple(name for name, mine in sources.items() if all(one.layer in hidden for one in mine)),
    )


def matched(recorded: Layout, parts: Sequence[Part], what: str) -> dict[str, _Array]:
    """Parameter -> recorded array, for every parameter that was recorded."""
    arrays = list(_arrays(recorded))
    numbered = all(_UNNAMED.fullmatch(array.name) for array in arrays)
    return _by_order(arrays, parts, what) if numbered else _by_name(arrays, parts, what)


def outputs_hint(recorded: Layout) -> int:
    """How many outputs a recorded model seems to have: the length of its last array, buffers aside."""
    arrays = [array for array in _arrays(recorded) if not array.layer.endswith(BUFFERS) and array.shape]
    return arrays[-1].shape[0] if arrays else 1


def _arrays(layout: Layout) -> Iterator[_Array]:
    for layer in layout:
        for tensor, shape in layer.tensors:
            owner = layer.name.removesuffix(BUFFERS)
            name = layer.name if _UNNAMED.fullmatch(layer.name) else f"{owner}.{tensor}"
            yield _Array(name, shape, layer.name, layer.span(tensor))


def _by_name(arrays: Sequence[_Array], parts: Sequence[Part], what: str) -> dict[str, _Array]:
    named = {array.name: array for array in arrays}
    found = {}
    for part in parts:
        array = named.get(part.path) or (named.get(f"model.{part.path}") if "." not in part.path else None)
        if array is None:
            if part.kind == "trained":
                near = ", ".join(list(named)[:3])
                raise PlanError(
                    f"{what} does not fit the recorded run: its parameter '{part.path}' {part.shape} was not recorded. "
                    f"The run has {len(named)} arrays: {near}{', ...' if len(named) > 3 else ''}"
                )
            continue
        _require(array, part, what)
        found[part.path] = array
    known = {part.path for part in parts}
    strangers = [a for a in arrays if a.name not in known and a.name.removeprefix("model.") not in known]
    if strangers:
        raise PlanError(
            f"{what} does not fit the recorded run, which has an array '{strangers[0].name}' {strangers[0].shape} that "
            "is not in the model"
        )
    return found


def _by_order(arrays: Sequence[_Array], parts: Sequence[Part], what: str) -> dict[str, _Array]:
    """Frameworks send a plain list of a state dict's values, of all parameters, or of the trained ones."""
    ways = [
        list(parts),
        [part for part in parts if part.kind != "buffer"],
        [part for part in parts if part.kind == "trained"],
    ]
    first: PlanError | None = None
    for way in ways:
        try:
            return _numbered(arrays, way, what)
        except PlanError as error:
            first = first or error
    assert first is not None
    raise first


def _numbered(arrays: Sequence[_Array], way: Sequence[Part], what: str) -> dict[str, _Array]:
    found = {}
    for array in arrays:
        place = int(array.name.partition("-")[2])
        if place >= len(way):
            raise PlanError(
                f"{what} does not fit the recorded run: it has {len(way)} tensors, and the run has '{array.name}' "
                f"{array.shape}"
            )
        _require(array, way[place], what)
        found[way[place].path] = array
    for part in way:
        if part.kind == "trained" and part.path not in found:
            raise PlanError(
                f"{what} does not fit the recorded run: nothing was recorded of its parameter '{part.path}' "
                f"{part.shape}"
            )
    return found


def _require(array: _Array, part: Part, what: str) -> None:
    if array.shape != part.shape:
        raise PlanError(
            f"{what} does not fit the recorded run: its '{part.path}' has the shape {part.shape}, recorded "
            f"'{array.name}' {array.shape}"
        )
