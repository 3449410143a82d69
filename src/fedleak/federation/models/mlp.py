"""Fully connected network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Layout, Params, Task
from fedleak.federation.model import Input, Model, Signature, Tensors
from fedleak.federation.models.parts import check_task, draw_weights, linear, linear_layer, together
from fedleak.lazy import torch

__all__ = ["Mlp"]


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """A multilayer perceptron: fully connected layers with ReLU between them; the input is flattened."""

    hidden: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1, description="units of each hidden layer")
    ] = (64,)

    name: ClassVar[str] = "mlp"
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.REGRESS)
    reads: ClassVar[tuple[Input, ...]] = (Input.NUMBERS,)

    def build(self, signature: Signature) -> Model:
        """Layers `fc1`, `fc2`, ... and `out`."""
        check_task(self, signature)
        widths = (int(np.prod(signature.input_shape)), *self.hidden, signature.outputs)
        names = (*(f"fc{i}" for i in range(1, len(widths) - 1)), "out")
        return _Mlp(tuple(linear_layer(name, a, b) for name, a, b in zip(names, widths[:-1], widths[1:], strict=True)))


class _Mlp:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.group = together(layout, 800_000)

    def init(self, rng: np.random.Generator) -> Params:
        return draw_weights(self.layout, [layer.tensors[0][1][1] for layer in self.layout], rng)

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        h = x.flatten(2)
        for layer in self.layout[:-1]:
            h = torch.relu_(linear(weights, layer.name, h))
        return linear(weights, "out", h)
