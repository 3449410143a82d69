"""The types that all packages share: users, layers, parameters, observations, capabilities, derived randomness."""

from __future__ import annotations

import enum
import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NewType, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "UserId",
    "FloatArray",
    "IntArray",
    "Params",
    "Layer",
    "Layout",
    "BUFFERS",
    "is_buffers",
    "Task",
    "Observation",
    "Capability",
    "rng_for",
    "duration",
    "data_size",
    "ByteCache",
    "flag_names",
    "advantage",
    "places",
    "counted",
    "in_unit",
    "format_interval",
    "format_value",
    "percent",
]

UserId = NewType("UserId", str)

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]

Params: TypeAlias = Mapping[str, FloatArray]
"""Layer name -> values: a flat vector per layer for one model, one row per client for a stack of updates."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a model: its tensors (weight, bias, ...) lie one after another in a flat vector.

    >>> Layer("out", (("weight", (10, 16)), ("bias", (10,)))).size
    170
    """

    name: str
    tensors: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        """How many parameters the layer has."""
        return sum(math.prod(shape) for _, shape in self.tensors)

    def span(self, tensor: str) -> slice:
        """Where one tensor lies in the layer's flat vector."""
        start = 0
        for name, shape in self.tensors:
            stop = start + math.prod(shape)
            if name == tensor:
                return slice(start, stop)
            start = stop
        raise KeyError(tensor)


Layout: TypeAlias = tuple[Layer, ...]
"""The layers of a model, from input to output."""


BUFFERS = ":buffers"  # ends the name of a layer of buffers: shared, but counted rather than trained


def is_buffers(layer: str) -> bool:
    """Whether a layer, or a tensor `layer.tensor`, holds buffers such as the running mean of BatchNorm.

    >>> is_buffers("bn1:buffers"), is_buffers("bn1:buffers.running_mean"), is_buffers("bn1.weight")
    (True, True, False)
    """
    return BUFFERS in layer


class Task(enum.Enum):
    """What the federation learns; it decides the loss, the utility metric and the shape of the labels."""

    CLASSIFY = "classify"  # y: int class per example; accuracy
    MULTI_LABEL = "multi-label"  # y: (examples, classes), 1 where a class is present; mean average precision of classes
    NEXT_TOKEN = "next-token"  # x: token ids, shifted by one against themselves; top-5 accuracy
    REGRESS = "regress"  # y: float per example; mean absolute error


class Observation(enum.Flag):
    """What an adversary sees of a run."""

    NONE = 0
    SNAPSHOTS = enum.auto()  # the global model of every round
    UPDATES = enum.auto()  # each client's update
    LINKS = enum.auto()  # which updates come from the same client: persistent pseudonyms
    SELECTION = enum.auto()  # which clients took part in a round
    AGGREGATE = enum.auto()  # the sum of a round's updates
    SIZES = enum.auto()  # how many examples each client trained on
    MODEL = enum.auto()  # the global model of the last round, which is released


class Capability(enum.Flag):
    """What an adversary can do to a run beyond observing it."""

    NONE = 0
    INJECT = enum.auto()  # put a record into a client's data
    ISOLATE = enum.auto()  # isolate one client on a model of its own
    JOIN = enum.auto()  # take part as a client
    CHOOSE_MODEL = enum.auto()  # insert layers of its own design into the model that clients train


V = TypeVar("V")


class ByteCache(Generic[V]):
    """Results that are costly to compute, by a digest of what they follow from, in a bounded number of bytes.

    What was not used for longest goes first. `size` says how many bytes a result takes.

    >>> cache = ByteCache(10, len)
    >>> [cache.get(key, lambda key=key: key * 6) for key in (b"a", b"b")], len(cache)
    ([b'aaaaaa', b'bbbbbb'], 1)
    """

    def __init__(self, most: int, size: Callable[[V], int]) -> None:
        self._most, self._size = most, size
        self._kept: OrderedDict[bytes, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes, compute: Callable[[], V]) -> V:
        """What was computed for this key, now or before."""
        if key not in self._kept:
            self._kept[key] = compute()
        self._kept.move_to_end(key)
        found = self._kept[key]
        while sum(map(self._size, self._kept.values())) > self._most:
            self._kept.popitem(last=False)
        return found


def flag_names(flags: enum.Flag) -> str:
    """Name the members of a flag, for messages.

    >>> flag_names(Observation.UPDATES | Observation.SNAPSHOTS)
    'snapshots, updates'
    """
    return ", ".join(str(member.name).lower() for member in flags) or "nothing"


def advantage(value: float, chance: float, *, lower_leaks: bool = False) -> float:
    """The share of what can be known beyond chance: 0 at chance, 1 for an attack that is always right.

    With one chance level it keeps the order of the scores, so nothing that lowers a score looks worse by it. Of a
    distance, where lower values leak more, 1 is the distance 0.

    >>> round(advantage(0.99, 0.51), 2), round(advantage(2.0, 8.0, lower_leaks=True), 2), advantage(0.4, 0.5)
    (0.98, 0.75, -0.2)
    """
    room = chance if lower_leaks else 1 - chance
    gained = chance - value if lower_leaks else value - chance
    return round(gained / room, 12) if room > 0 else 0.0


def places(value: float) -> int:
    """How many decimals to print: two, or more where the second significant digit would be lost."""
    size = abs(value)
    return 2 if size >= 0.0995 or size < 0.00005 else 3 if size >= 0.00995 else 4


def format_interval(value: float, low: float, high: float) -> str:
    """A value with its interval: `0.41 [0.36, 0.47]`."""
    return f"{format_value(value)} [{format_value(low)}, {format_value(high)}]"


def format_value(value: float) -> str:
    """Format a value for verdicts and tables: a chance of 0.007 must not become 0.01.

    >>> format_value(0.4142), format_value(0.034), format_value(0.0069), format_value(0.0)
    ('0.41', '0.034', '0.0069', '0.00')
    """
    return f"{value:.{places(value)}f}"


def percent(share: float) -> str:
    """Whole per cents, never rounded to a false certainty.

    >>> percent(0.614), percent(0.007), percent(0.9991), percent(1.0)
    ('61%', '0.7%', 'over 99%', '100%')
    """
    if 0.995 <= share < 1:
        return "over 99%"
    if 0 < share < 0.0005:
        return "under 0.1%"
    return f"{100 * share:.1f}%" if 0 < share < 0.0095 else f"{100 * share:.0f}%"


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "client"), counted(4, "client")
    ('1 client', '4 clients')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time as one says it.

    >>> [duration(seconds) for seconds in (0.2, 45, 75, 600, 4000, 36000)]
    ['1 s', '45 s', '1.2 min', '10 min', '1.1 h', '10 h']
    """
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    value, unit = (seconds / 60, "min") if seconds < 3570 else (seconds / 3600, "h")
    return f"{value:.0f} {unit}" if value >= 9.95 else f"{value:.1f} {unit}"


def data_size(size: float) -> str:
    """An amount of data as one says it, from bytes.

    >>> data_size(3.5e9), data_size(42e6), data_size(3)
    ('3.5 GB', '42 MB', '1 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 999.5e6 else f"{max(1, round(size / 1e6))} MB"


def in_unit(text: str, unit: str) -> str:
    """A sentence about users, worded for what is asked for: users, or clients with all users behind them.

    >>> in_unit("Which of these users sent this update?", "client")
    'Which of these clients sent this update?'
    """
    return (
        text
        if unit == "user"
        else re.sub(r"\b(?:(U)|u)ser(?=s?\b(?!-))", lambda m: unit.title() if m[1] else unit, text)
    )


def rng_for(seed: int, *path: Any) -> np.random.Generator:
    """Return the generator for a named purpose in the run, for instance ("batches", round, client).

    All randomness is derived from the plan's seed by name, never by order of execution, so a run that is resumed or
    executed in parallel draws the same numbers.

    >>> bool(rng_for(1, "noise", 3).random() == rng_for(1, "noise", 3).random())
    True
    """
    text = "\x1f".join([str(seed), *map(str, path)])
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
