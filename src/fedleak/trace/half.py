"""float32 to float16, as numpy rounds it, at the speed of torch.

numpy converts value by value; torch uses the processor's own instruction. The bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.lazy import torch

__all__ = ["to_half", "has_infinities"]

_ALONE = 1 << 15  # values that torch converts without dividing them among threads
_INFINITE = 0x7C00


def to_half(values: npt.NDArray[Any]) -> npt.NDArray[np.float16]:
    """The nearest float16 of each value, infinite where it is too large."""
    found = np.empty(values.shape, "<f2")
    source = np.ascontiguousarray(values, dtype="<f4").reshape(-1)
    if not source.flags.writeable:  # torch would warn
        source = source.copy()
    into, given = torch.from_numpy(found.reshape(-1)), torch.from_numpy(source)
    for start in range(0, len(source), _ALONE):
        into[start : start + _ALONE].copy_(given[start : start + _ALONE])
    return found


def has_infinities(values: npt.NDArray[np.float16]) -> bool:
    """Whether a value is infinite or not a number, by its bits: numpy would convert each value back first."""
    return bool(values.size) and int((values.view(np.uint16) & 0x7FFF).max()) >= _INFINITE
