"""Reading text one character after another, with what was read kept as a state.

Training shows a model whole windows. An attack that scores many records with common prefixes, or that searches for the
most likely one, instead asks what follows a prefix, for many prefixes at once and under several snapshots of one run.
So a reader is bound to weights whose leading axis runs over snapshots, and reads the same characters with all of them.
"""

from __future__ import annotations

from typing import Protocol, Self, runtime_checkable

from fedleak.federation.model import Tensors
from fedleak.lazy import torch

__all__ = ["State", "Reader", "Incremental"]


class State(Protocol):
    """What a reader remembers of each of several beginnings."""

    def take(self, rows: torch.Tensor) -> Self:
        """Keep, repeat or reorder beginnings by their index."""
        ...


class Reader(Protocol):
    """A model with its weights."""

    def start(self) -> State:
        """The state before anything was read, of one beginning."""
        ...

    def read(self, state: State, tokens: torch.Tensor) -> tuple[torch.Tensor, State]:
        """Read one more token (one for each beginning); return log-probabilities of the next, and the new state.

        The log-probabilities are (snapshots, beginnings, outputs).
        """
        ...


@runtime_checkable
class Incremental(Protocol):
    """A model that can read one token after another."""

    def reader(self, weights: Tensors) -> Reader:
        """Bind weights, whose leading axis runs over snapshots."""
        ...
