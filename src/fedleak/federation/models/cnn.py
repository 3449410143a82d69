"""Small convolutional network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import Input, Model, Signature, Tensors
from fedleak.federation.models.parts import check_task, draw_weights, linear, linear_layer, together
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["Cnn"]


@dataclass(frozen=True, kw_only=True)
class Cnn:
    """A convolutional network: two convolutions with ReLU and 2x2 max pooling, a hidden layer and an output layer."""

    channels: Annotated[
        tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]],
        Meta(description="channels of the two convolutions"),
    ] = (8, 16)
    hidden: Annotated[int, Meta(ge=1, description="units of the fully connected layer")] = 32
    kernel: Annotated[Literal[3, 5], Meta(description="side of the convolutions' kernels")] = 3

    name: ClassVar[str] = "cnn"
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.REGRESS)
    reads: ClassVar[tuple[Input, ...]] = (Input.NUMBERS,)

    def build(self, signature: Signature) -> Model:
        """Layers `conv1`, `conv2`, `fc` and `out`."""
        check_task(self, signature)
        shape = signature.input_shape
        if len(shape) != 3 or min(shape[1:]) < 4:
            raise PlanError(
                f"model 'cnn' needs images (channel, height, width) of at least 4x4; the data has shape {shape}; "
                "choose model 'mlp'"
            )
        return _Cnn(self, shape, signature.outputs)


class _Cnn:
    def __init__(self, settings: Cnn, shape: tuple[int, ...], outputs: int) -> None:
        first, second = settings.channels
        self.kernel = settings.kernel
        channels, height, width = shape
        self.layout: Layout = (
            Layer("conv1", (("weight", (first, channels, self.kernel, self.kernel)), ("bias", (first,)))),
            Layer("conv2", (("weight", (second, first, self.kernel, self.kernel)), ("bias", (second,)))),
            linear_layer("fc", second * (height // 4) * (width // 4), settings.hidden),
            linear_layer("out", settings.hidden, outputs),
        )
        self.group = together(self.layout, 400_000)

    def init(self, rng: np.random.Generator) -> Params:
        return draw_weights(self.layout, [int(np.prod(layer.tensors[0][1][1:])) for layer in self.layout], rng)

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu_(linear(weights, "fc", self.features(weights, x).flatten(2)))
        return linear(weights, "out", h)

    def features(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        clients, batch = x.shape[:2]
        # Each client's channels lie beside the others' and meet only their own kernels: groups=clients.
        h = x.transpose(0, 1).flatten(1, 2)
        for name in ("conv1", "conv2"):
            kernels = weights[f"{name}.weight"].flatten(0, 1)
            bias = weights[f"{name}.bias"].flatten()
            h = F.conv2d(h, kernels, bias, padding=self.kernel // 2, groups=clients)
            h = F.max_pool2d(h, 2).relu_()  # the same as pooling after, on a quarter of the numbers
        return h.view(batch, clients, -1, *h.shape[2:]).transpose(0, 1)
