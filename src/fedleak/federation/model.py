"""What the federation asks of a model: a layout, initial weights, and a forward pass over many clients at once."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fedleak.core import Layout, Params, Task
from fedleak.lazy import torch

__all__ = ["Signature", "Tensors", "Input", "ActivationHooks", "Model", "Stochastic", "Convolutional", "Architecture"]

Tensors: TypeAlias = "Mapping[str, torch.Tensor]"
"""`layer.tensor` -> values with a leading client axis: a layer `fc` holds `fc.weight` (clients, out, in)."""

ActivationHooks: TypeAlias = "Mapping[str, Callable[[torch.Tensor], torch.Tensor]]"
"""Place in a model -> what is done to the values that pass it, (clients, batch, length, size)."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What goes into a model and what comes out."""

    task: Task
    input_shape: tuple[int, ...]  # of one example; (length,) for tokens
    outputs: int  # classes, vocabulary size, or 1


class Input(enum.Enum):
    """What examples are made of."""

    NUMBERS = "numbers"
    WORDS = "words"


class Model(Protocol):
    """A model is stateless: weights come in with a leading client axis, so that many clients are computed together."""

    layout: Layout
    group: int  # how many clients to compute together; 1 where grouping does not pay

    def init(self, rng: np.random.Generator) -> Params:
        """Draw initial weights."""
        ...

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        """Map x (clients, batch, ...) to outputs (clients, batch, outputs).

        For the next-token task the outputs are (clients, batch, length, outputs).
        """
        ...


@runtime_checkable
class Stochastic(Protocol):
    """A model that is trained otherwise than it is used: with dropout of its own, or touched by a defence."""

    places: tuple[str, ...]  # where it can be touched: what leaves the `embedding`, what leaves each `lstm` layer

    def train_forward(
        self,
        weights: Tensors,
        x: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        touches: ActivationHooks | None = None,
    ) -> torch.Tensor:
        """As `forward`, with one generator for each client, and with what is done at the model's places."""
        ...


@runtime_checkable
class Convolutional(Protocol):
    """A model that looks at images through convolutions, whose maps can be had before they are flattened."""

    def features(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        """What the last convolution gives: (clients, batch, channels, height, width)."""
        ...


class Architecture(Protocol):
    """A frozen dataclass of a model's settings, as a plan names it."""

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]]
    reads: ClassVar[tuple[Input, ...]]

    def build(self, signature: Signature) -> Model:
        """Make the model for this task and these shapes."""
        ...
