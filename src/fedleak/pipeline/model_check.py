"""Look for an imprint block in a model: a file of weights, a trace, or the model that a plan's clients are sent.

Nothing that is read can execute: weights come from safetensors files, from NumPy archives without objects, or from
traces.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import Layout, Params
from fedleak.errors import DataError
from fedleak.federation.federation import initial
from fedleak.federation.imprint_detector import Suspicion, suspicions
from fedleak.pipeline.prepare import fitting_model
from fedleak.plan.plan import Plan
from fedleak.population.prepare import prepare
from fedleak.trace.files import read_whole
from fedleak.trace.reader import Trace

__all__ = ["CheckedModel", "check_file", "check_plan", "check_trace"]

_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1"}
_HEADER = 100 * 2**20  # bytes of a safetensors header, at most
_EXECUTES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".joblib")


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """What was found in one model."""

    what: str
    tensors: int
    suspicions: tuple[Suspicion, ...]


def check_plan(plan: Plan) -> list[CheckedModel]:
    """The model that the clients of a plan are sent first."""
    model = fitting_model(plan, prepare(plan.dataset, plan.population, plan.seeds[0]))
    return [_checked("the model that clients are sent first", _tensors(initial(model, 0), model.layout))]


def check_trace(folder: Path) -> list[CheckedModel]:
    """The first and the last model of a trace."""
    inner = folder if (folder / "header.json").is_file() else folder / "trace"
    trace = Trace.open(inner)
    return [
        _checked(f"the model after round {number}", _tensors(trace.snapshot(number), trace.header.layout))
        for number in sorted({0, trace.rounds})
    ]


def check_file(path: Path) -> list[CheckedModel]:
    """The weights in a safetensors file or a NumPy archive."""
    if path.suffix.lower() in _EXECUTES:
        raise DataError(
            f"{path}: files of this kind can execute code when they are loaded, so it is not opened; save the weights "
            "as .safetensors or .npz"
        )
    data = read_whole(path)
    tensors = _archive(path, data) if data[:2] == b"PK" else _safetensors(path, data)
    return [_checked(f"the weights in {path.name}", tensors)]


def _checked(what: str, tensors: dict[str, npt.NDArray[Any]]) -> CheckedModel:
    return CheckedModel(what, len(tensors), tuple(suspicions(tensors)))


def _tensors(weights: Params, layout: Layout) -> dict[str, npt.NDArray[Any]]:
    return {
        f"{layer.name}.{tensor}": weights[layer.name][layer.span(tensor)].reshape(shape)
        for layer in layout
        for tensor, shape in layer.tensors
    }


def _archive(path: Path, data: bytes) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: not a NumPy archive of numbers (.npz); save the weights with numpy.savez") from error
    return {name: values for name, values in found.items() if np.issubdtype(values.dtype, np.floating)}


def _safetensors(path: Path, data: bytes) -> dict[str, npt.NDArray[Any]]:
    """The floating-point tensors of a safetensors file: a length, a JSON header and raw numbers."""
    broken = DataError(f"{path}: neither a safetensors file nor a NumPy archive, or damaged; save the weights again")
    if len(data) < 8:
        raise broken
    [size] = struct.unpack("<Q", data[:8])
    if size > min(_HEADER, len(data) - 8):
        raise broken
    try:
        header = json.loads(data[8 : 8 + size])
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        found = {}
        for name, entry in entries.items():
            kind, shape, (start, end) = entry["dtype"], [int(side) for side in entry["shape"]], entry["data_offsets"]
            raw = data[8 + size + int(start) : 8 + size + int(end)]
            if kind == "BF16":
                whole = np.frombuffer(raw, "<u2").astype("<u4") << 16
                values = whole.view("<f4")
            elif kind in _TYPES:
                values = np.frombuffer(raw, _TYPES[kind])
            else:
                continue
            if min(start, end, *shape, 0) < 0 or values.size != math.prod(shape):
                raise broken
            if np.issubdtype(values.dtype, np.floating):
                found[str(name)] = values.reshape(shape)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise broken from error
    return found
