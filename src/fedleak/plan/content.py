"""A digest of anything that a plan can hold: settings, arrays, torch modules, and code.

It decides whether runs on disk belong to a plan, so it depends on content only: the same objects, made again in another
process, have the same digest, and an object whose content or code has changed has another. What a function calls
elsewhere is not followed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterator, Mapping, Set
from pathlib import PurePath
from typing import Any

import numpy as np

__all__ = ["content_digest"]

_LIBRARIES = ("builtins", "torch", "numpy", "fedleak", "typing", "abc", "dataclasses")


def content_digest(value: Any) -> str:
    """The digest, as hexadecimal digits.

    >>> content_digest({"x": np.zeros(2)}) == content_digest({"x": np.zeros(2)})
    True
    >>> content_digest(lambda x: x + 1) == content_digest(lambda x: x + 2)
    False
    """
    digest = hashlib.sha256()
    for part in _parts(value, ()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _parts(value: Any, inside: tuple[int, ...]) -> Iterator[bytes]:
    if id(value) in inside:  # refers to itself
        yield b"again"
        return
    inside = (*inside, id(value))
    torch = sys.modules.get("torch")  # where it is not imported, no value is of its classes
    yield type(value).__name__.encode()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, PurePath, np.generic)):
        yield repr(value).encode()
    elif isinstance(value, enum.Enum):
        yield str(value).encode()
    elif isinstance(value, np.ndarray):
        yield from _array(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(key, inside)
            yield from _parts(item, inside)
    elif isinstance(value, Set):
        yield from sorted(content_digest(item).encode() for item in value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _parts(item, inside)
    elif isinstance(value, type):
        yield from _class(value, inside)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_names, value.co_consts), inside)
    elif isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        yield from _parts((value.__code__, value.__defaults__, value.__kwdefaults__, cells), inside)
    elif isinstance(value, types.MethodType):
        yield from _parts((value.__func__, value.__self__), inside)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, value.keywords), inside)
    elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType)):
        yield value.__name__.encode()
    elif torch is not None and isinstance(value, torch.Tensor):
        yield from _array(value.detach().cpu().numpy())
    elif torch is not None and isinstance(value, torch.nn.Module):
        yield repr(value).encode()
        for part in value.modules():
            yield from _class(type(part), inside)
        for name, tensor in [*value.named_parameters(), *value.named_buffers()]:
            yield from _parts((name, tensor, tensor.requires_grad), inside)
    else:
        yield from _class(type(value), inside)
        if dataclasses.is_dataclass(value):
            yield from _parts({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, inside)
        else:
            yield from _parts(getattr(value, "__dict__", {}), inside)


def _array(values: np.ndarray[Any, Any]) -> Iterator[bytes]:
    yield f"{values.dtype} {values.shape}".encode()
    if values.dtype == object:
        yield from _parts(values.tolist(), ())
    else:
        yield np.ascontiguousarray(values).tobytes()


def _class(cls: type[Any], inside: tuple[int, ...]) -> Iterator[bytes]:
    """The code of a class and of its bases, up to those of libraries."""
    for base in cls.__mro__:
        yield base.__qualname__.encode()
        if base.__module__.partition(".")[0] in _LIBRARIES:
            continue
        for name, member in vars(base).items():
            code = getattr(member, "__func__", getattr(member, "fget", member))  # of a class method, of a property
            if isinstance(code, types.FunctionType):
                yield from _parts((name, code), inside)
            elif not name.startswith("_") and isinstance(member, (bool, int, float, str, tuple)):
                yield from _parts((name, member), inside)
