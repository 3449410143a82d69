"""The process from which workers and attacks are forked: it has the libraries loaded and holds no data."""

from __future__ import annotations

import multiprocessing
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext

from threadpoolctl import threadpool_limits

from fedleak.lazy import torch

__all__ = ["fork_server", "single_threaded", "without_main"]

# Imported once; each fork then starts at once.
_PRELOAD = [
    "fedleak.pipeline.stages",
    "torch",
    "scipy.stats",
    "scipy.optimize",
    "sklearn.neighbors",
    "sklearn.svm",
    "sklearn.decomposition",
]


def fork_server() -> ForkServerContext:
    """The way to start processes from it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def single_threaded() -> None:
    """One thread in every numerical library: the jobs are the parallelism."""
    torch.set_num_threads(1)
    threadpool_limits(1)


@contextmanager
def without_main() -> Iterator[None]:
    """Start processes that do not import the caller's main module.

    They run functions of Fedleak with plain data, so they do not need it; and a script without a `__main__` guard would
    start over in every one.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
