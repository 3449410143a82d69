"""Record a Flower run: wrap the strategy, and let the clients say which partition they hold.

    from fedleak.record.flower import record

    strategy = record(strategy, "fedleak-run")  # outermost: after every wrapper

In the ClientApp, where the auditor is to know which partition of the data a client trained on:

    from fedleak.record.flower import identify

    app = ClientApp(mods=[identify])

The strategy works as before. What the recorder cannot do is warned of once, and the run goes on.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from fedleak.errors import TraceError
from fedleak.record.flower_fit import FitHooks
from fedleak.record.flower_hooks import Recording
from fedleak.record.flower_train import IDENTITY, METRIC, PARTITION, TrainHooks
from fedleak.record.recorder import Recorder

__all__ = ["record", "identify"]

S = TypeVar("S")

_METRICS = "fitres.metrics"  # where the reply of a NumPyClient keeps its metrics


def record(
    strategy: S,
    folder: str | Path = "fedleak-run",
    *,
    dtype: Literal["float32", "float16"] = "float32",
    every: int = 1,
    layers: Sequence[str] | None = None,
    sums: bool = False,
) -> S:
    """Record every training round of a strategy into a folder, and return the same strategy.

    Methods of this one object are replaced; a wrapper around it would be bypassed, because `start` calls the methods
    of the strategy itself. A relative folder is below the directory that the ServerApp runs in, which the log names.
    `dtype` is how updates are stored; with `every` only those of every k-th round are, with `layers` only those of
    some layers, with `sums` none, only their mean.
    """
    path, origin = Path(folder).absolute(), _origin(strategy)
    # Without a reference to the strategy: nobody but the user keeps it alive.
    recording = Recording(lambda: Recorder(path, origin=origin, dtype=dtype, every=every, layers=layers, sums=sums))
    with recording.guarded():
        hooks = _hooks(strategy)
        hooks(strategy, recording).install()
        # A strategy of the older kind is never told that the run is over; it goes away with it.
        weakref.finalize(strategy, recording.close)
        logging.getLogger("flwr").info("Fedleak records this run in %s", path)
    return strategy


def identify(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
    """Client mod: tell the recorder which partition of the data this client holds (`partition-id`).

    The recorder takes the note out of the reply before the strategy sees it. Without a recorder it stays there, where
    the strategies of Flower ignore it.
    """
    reply = call_next(message, context)
    with contextlib.suppress(Exception):  # the client's work is done; nothing here may spoil it
        _tell_partition(message, context, reply)
    return reply


def _tell_partition(message: Any, context: Any, reply: Any) -> None:
    kind = str(message.metadata.message_type).partition(".")[0]  # "train" or "train.NAME"
    partition = context.node_config.get(PARTITION)
    if kind != "train" or partition is None or not reply.has_content():
        return
    from flwr.app import ConfigRecord

    if _METRICS in reply.content:
        # Of a NumPyClient's reply only the known records reach the strategy.
        reply.content[_METRICS][METRIC] = str(partition)
    else:
        reply.content[IDENTITY] = ConfigRecord({PARTITION: str(partition)})


def _hooks(strategy: Any) -> type[TrainHooks] | type[FitHooks]:
    for kind in (TrainHooks, FitHooks):
        if all(callable(getattr(strategy, name, None)) for name in kind.needed):
            return kind
    raise TraceError(
        f"{type(strategy).__name__} is no Flower strategy: it has neither configure_train and aggregate_train "
        "nor configure_fit and aggregate_fit; give record() the strategy itself"
    )


def _origin(strategy: Any) -> dict[str, str]:
    try:
        version = importlib.metadata.version("flwr")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    names: list[str] = []
    while strategy is not None and len(names) < 8:  # wrappers hold the strategy that they wrap
        names.append(type(strategy).__name__)
        strategy = getattr(strategy, "strategy", None)
    return {"framework": "flower", "version": version, "strategy": " > ".join(names)}
