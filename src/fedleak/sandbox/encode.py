"""Plain data, arrays and dataclasses as JSON and one file of raw numbers; reading them back executes no data.

What is written comes from this process, and the only thing that a file can cause is that a class is imported and called
with its fields, if it is a dataclass, a struct or an enumeration.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["CannotEncode", "save", "load", "importable"]

_JSON, _NUMBERS = "given.json", "given.bin"


class CannotEncode(Exception):
    """An object that another process could not build again; the message says why."""


def importable(cls: type) -> bool:
    """Whether another process finds a class by its name: it is no local one, and not of the script that runs."""
    if cls.__module__ == "__main__" or "<locals>" in cls.__qualname__:
        return False
    try:
        return _find(f"{cls.__module__}:{cls.__qualname__}") is cls
    except (ImportError, AttributeError):
        return False


def save(folder: Path, values: dict[str, Any]) -> None:
    """Write values below a folder."""
    arrays: list[npt.NDArray[Any]] = []
    tree = _encode(values, arrays)
    (folder / _JSON).write_bytes(msgspec.json.encode(tree))
    with open(folder / _NUMBERS, "wb") as file:
        for array in arrays:
            file.write(np.ascontiguousarray(array).tobytes())


def load(folder: Path) -> dict[str, Any]:
    """Read them back."""
    tree = msgspec.json.decode((folder / _JSON).read_bytes())
    found: dict[str, Any] = _decode(tree, np.fromfile(folder / _NUMBERS, dtype=np.uint8), [0])
    return found


def _encode(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return {"enum": _name(type(value)), "value": value.value}
    if isinstance(value, (int, np.integer)):
        return {"int": str(int(value))}  # of any size
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise CannotEncode(f"an array of {value.dtype} is not an array of numbers")
        arrays.append(value)
        return {"array": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__ if type(value) in (list, tuple) else "tuple": [_encode(v, arrays) for v in value]}
    if isinstance(value, (frozenset, set)):
        return {"frozenset": [_encode(v, arrays) for v in sorted(value)]}
    if isinstance(value, msgspec.Struct):
        fields = {name: _encode(getattr(value, name), arrays) for name in value.__struct_fields__}
        return {"object": _name(type(value)), "fields": fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {f.name: _encode(getattr(value, f.name), arrays) for f in dataclasses.fields(value) if f.init}
        return {"object": _name(type(value)), "fields": held}
    if hasattr(value, "items"):
        return {"dict": [[_encode(k, arrays), _encode(v, arrays)] for k, v in value.items()]}
    raise CannotEncode(f"an object of class {type(value).__name__} is neither plain data nor a dataclass")


def _decode(tree: Any, numbers: npt.NDArray[np.uint8], at: list[int]) -> Any:
    """`at` is how far the arrays are read: they lie in the order in which they were written."""
    if not isinstance(tree, dict):
        return tree
    kind = next(iter(tree))
    if kind == "int":
        return int(tree["int"])
    if kind == "float":
        return float(tree["float"])
    if kind == "enum":
        return _find(tree["enum"])(tree["value"])
    if kind == "array":
        dtype, shape = np.dtype(tree["array"]), tuple(tree["shape"])
        size = dtype.itemsize * math.prod(shape)
        part = numbers[at[0] : at[0] + size]
        at[0] += size
        return (
            part.view(dtype).reshape(shape) if part.ctypes.data % dtype.alignment == 0 else _moved(part, dtype, shape)
        )
    if kind in ("list", "tuple", "frozenset"):
        return {"list": list, "tuple": tuple, "frozenset": frozenset}[kind](_decode(v, numbers, at) for v in tree[kind])
    if kind == "dict":
        return {_decode(k, numbers, at): _decode(v, numbers, at) for k, v in tree["dict"]}
    fields = {name: _decode(v, numbers, at) for name, v in tree["fields"].items()}
    return _find(tree["object"])(**fields)


def _moved(part: npt.NDArray[np.uint8], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.frombuffer(part.tobytes(), dtype).reshape(shape).copy()


def _name(cls: type) -> str:
    if not importable(cls):
        raise CannotEncode(f"its class {cls.__qualname__} is not in a module that can be imported")
    return f"{cls.__module__}:{cls.__qualname__}"


def _find(name: str) -> Any:
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if not (
        isinstance(found, type) and (dataclasses.is_dataclass(found) or issubclass(found, (enum.Enum, msgspec.Struct)))
    ):
        raise ImportError(f"{name} is no dataclass, struct or enumeration")
    return found
