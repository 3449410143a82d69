"""How methods of a Flower strategy are replaced, and what both kinds of strategy have in common."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.errors import TraceError
from fedleak.record.arrays import Arrays
from fedleak.record.recorder import Recorder

__all__ = [
    "NO_REPLY",
    "Recording",
    "Sent",
    "choose_model",
    "difference",
    "replace_methods",
    "argument",
    "with_argument",
    "error_kind",
]

NO_REPLY = "no reply in time"
_CODES = {
    1: "its ClientApp could not be loaded",
    2: "its ClientApp raised an exception",
    3: "the message or its reply was lost",
    4: "its reply was lost",
    5: "the node is unavailable",
    6: "a client mod refused the message",
    7: "its app bundle is invalid",
    8: "its ClientApp crashed",
}


class Recording:
    """The recorder of one strategy: a second `start` of the same strategy goes on with the same folder."""

    def __init__(self, open_recorder: Callable[[], Recorder]) -> None:
        self._open = open_recorder
        self._ended = False
        self.recorder = open_recorder()

    @property
    def active(self) -> bool:
        """Whether there is still something to record."""
        return self.recorder.active or self._ended

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Let no error of the adapter out."""
        try:
            yield
        except Exception as error:
            self.recorder.failed(error)

    def begin(self) -> None:
        """A round begins, maybe the first one after `close`."""
        if self._ended:
            self._ended = False
            self.recorder = self._open()

    def close(self, reason: str = "") -> None:
        """The run is over."""
        if self.recorder.active:
            self._ended = True
            self.recorder.close(reason)


@dataclass(frozen=True, slots=True)
class Sent:
    """What one client was sent."""

    client: str
    model: Any  # the framework's own object, to see who was sent the same
    read: Callable[[], Arrays]


def choose_model(sent: Sequence[Sent], own: Arrays) -> tuple[Arrays, Mapping[str, Arrays]]:
    """The model of a round, and what those clients were sent that were sent something else.

    Usually all are sent one object. Where they are not, the strategy's own model is the one of the round.
    """
    if not sent:
        return own, {}
    models = {id(one.model): one.read() for one in sent[:1]}
    first = models[id(sent[0].model)]
    for one in sent[1:]:
        if id(one.model) not in models:
            read = one.read()
            models[id(one.model)] = first if _same(first, read) else read
    if all(model is first for model in models.values()):
        return first, {}
    base = own or first
    others = {one.client: models[id(one.model)] for one in sent if not _same(models[id(one.model)], base)}
    return base, others


def difference(arrays: Arrays, start: Arrays) -> Arrays:
    """What a client changed of the model that it alone was sent."""
    found = {}
    for name, array in arrays.items():
        if name in start and start[name].shape == array.shape and array.dtype.kind == "f":
            found[name] = array - start[name]
    return found


def _same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        array.dtype == other[name].dtype
        and array.shape == other[name].shape
        and np.array_equal(_bytes(array), _bytes(other[name]))
        for name, array in one.items()
    )


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def replace_methods(target: Any, around: Mapping[str, Callable[..., Any]]) -> None:
    """Put a function around methods of one object; it is given the method and then the arguments."""
    done: list[str] = []
    try:
        for name, function in around.items():
            method = getattr(target, name)
            setattr(target, name, functools.wraps(method)(functools.partial(function, method)))
            done.append(name)
    except Exception as error:
        for name in done:
            delattr(target, name)
        raise TraceError(
            f"the methods of {type(target).__name__} cannot be replaced ({type(error).__name__}: {error}); "
            "give it a __dict__ (no __slots__, not frozen) to record it"
        ) from error


def argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    """An argument that a method was given by name or by place; None if neither."""
    return kwargs[name] if name in kwargs else args[place] if len(args) > place else None


def with_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str, value: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with another value for one of them."""
    if name in kwargs:
        return args, {**kwargs, name: value}
    return (*args[:place], value, *args[place + 1 :]), kwargs


def error_kind(error: Any) -> str:
    """Why a client failed, without its own words: an exception's text may name the user, and a trace must not."""
    return _CODES.get(int(getattr(error, "code", 0)), "an unknown error")
