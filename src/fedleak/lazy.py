"""torch and scipy, imported when they are first used.

They take seconds to import, and the classes that a plan names stand in the same files as the code that computes with
them. `fedleak check` and `fedleak list` only read what those classes declare, so files that declare something write

    from fedleak.lazy import torch

instead of `import torch`, and use it as ever inside their functions. Whatever Python evaluates while it imports a file
would load the library at once: a base class (`nn.Module`), a decorator, a default value, a type alias that is not
quoted. Such code stands in a file of its own that is imported where it is needed. scikit-learn is imported inside the
few functions that use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["torch", "nn", "functional", "scipy", "stats", "ndimage"]


class _Lazy:
    """Stands in for a module. An attribute is looked up once and kept, so later uses cost nothing."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(importlib.import_module(self.__name__), attribute)
        setattr(self, attribute, found)
        return found

    def __repr__(self) -> str:
        return f"<module '{self.__name__}', imported when it is used>"


if TYPE_CHECKING:
    import scipy as scipy
    import scipy.linalg
    import scipy.optimize
    import scipy.sparse
    import scipy.sparse.csgraph
    import scipy.spatial
    import scipy.special
    import torch as torch
    from scipy import ndimage as ndimage
    from scipy import stats as stats
    from torch import nn as nn
    from torch.nn import functional as functional
else:
    torch = _Lazy("torch")
    nn = _Lazy("torch.nn")
    functional = _Lazy("torch.nn.functional")
    scipy = _Lazy("scipy")
    stats = _Lazy("scipy.stats")
    ndimage = _Lazy("scipy.ndimage")
