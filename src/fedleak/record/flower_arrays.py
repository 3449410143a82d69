"""Read the arrays of Flower's messages where they lie, without copying them."""

from __future__ import annotations

import functools
import io
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.record.arrays import Arrays

__all__ = ["from_array_record", "from_parameters", "from_npy"]

_NUMPY = "numpy.ndarray"  # the serialisation that both kinds of strategy use
_HEADER = {(1, 0): (2, np.lib.format.read_array_header_1_0), (2, 0): (4, np.lib.format.read_array_header_2_0)}


def from_array_record(record: Any) -> Arrays:
    """The arrays of an ArrayRecord by name."""
    return {name: from_npy(array.data, array.stype, array.dtype) for name, array in record.items()}


def from_parameters(parameters: Any) -> Arrays:
    """The arrays of the older `Parameters`, which have no names."""
    found = (from_npy(data, parameters.tensor_type) for data in parameters.tensors)
    return {f"array-{place:03}": array for place, array in enumerate(found)}


def from_npy(data: bytes, serialisation: str = _NUMPY, dtype: str = "") -> npt.NDArray[Any]:
    """An array on top of the bytes of a .npy file; of any other serialisation, its bytes, which are no weights."""
    start = _start(data) if serialisation == _NUMPY else 0
    if not start:
        return np.frombuffer(data, np.uint8)
    kind, shape, fortran = _parse(bytes(data[:start]))
    if kind.hasobject:
        return np.frombuffer(data, np.uint8)
    count = int(np.prod(shape, dtype=np.int64))
    flat = np.frombuffer(data, kind, count, start)
    if dtype == "bfloat16" and kind == np.dtype("V2"):
        # numpy has no bfloat16: it is the upper half of a float32.
        flat = (flat.view("<u2").astype("<u4") << 16).view("<f4")
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _start(data: bytes) -> int:
    """Where the values of a .npy file begin; 0 if it is none."""
    if data[:6] != b"\x93NUMPY" or (data[6], data[7]) not in _HEADER:
        return 0
    width, _ = _HEADER[data[6], data[7]]
    return 8 + width + int.from_bytes(data[8 : 8 + width], "little")


@functools.lru_cache(maxsize=4096)
def _parse(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Type, shape and order; the headers of a model are the same in every reply of every round."""
    _, read = _HEADER[header[6], header[7]]
    shape, fortran, kind = read(io.BytesIO(header[8:]))
    return kind, shape, fortran
