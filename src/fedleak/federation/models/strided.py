"""Convolutions with strides instead of pooling, as in the papers on reconstruction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

__all__ = ["StridedCnn", "ACTIVATIONS"]

_KERNEL = 3

ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "leaky-relu": lambda h: F.leaky_relu(h, 0.2),
    "elu": lambda h: F.elu(h),
    "tanh": lambda h: torch.tanh(h),
}
"""None has a flat half or a pool's jumps: gradients are differentiated once more where data is sought behind them."""


@dataclass(frozen=True, kw_only=True)
class StridedCnn:
    """A network of strided 3x3 convolutions and one fully connected layer (Song et al., 2020, Tables I and II).

    The defaults are Table I, for MNIST; Table II, for faces, has strides (2, 1, 2, 2). Both are large for one core;
    narrower ones (channels = [8, 16, 32], with as many strides) behave alike.
    """

    channels: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(min_length=1, description="channels of each convolution")
    ] = (32, 64, 128, 256)
    strides: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=4)], ...], Meta(min_length=1, description="stride of each convolution")
    ] = (2, 1, 2, 1)
    activation: Annotated[Literal["leaky-relu", "elu", "tanh"], Meta(description="after each convolution")] = (
        "leaky-relu"
    )

    name: ClassVar[str] = "strided-cnn"
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.REGRESS)
    reads: ClassVar[tuple[Input, ...]] = (Input.NUMBERS,)

    def build(self, signature: Signature) -> Model:
        """Layers `conv1`, `conv2`, ... and `out`."""
        check_task(self, signature)
        shape = signature.input_shape
        if len(self.channels) != len(self.strides):
            raise PlanError(
                f"model '{self.name}': {len(self.channels)} channels and {len(self.strides)} strides; give one stride "
                "for each convolution"
            )
        if len(shape) != 3:
            raise PlanError(
                f"model '{self.name}' needs images (channel, height, width); the data has shape {shape}; "
                "choose model 'mlp'"
            )
        return _StridedCnn(self, shape, signature.outputs)


class _StridedCnn:
    def __init__(self, settings: StridedCnn, shape: tuple[int, ...], outputs: int) -> None:
        self.strides = settings.strides
        self.activate = ACTIVATIONS[settings.activation]
        before, height, width = shape
        layers = []
        for number, (channels, stride) in enumerate(zip(settings.channels, settings.strides, strict=True), 1):
            kernels = (channels, before, _KERNEL, _KERNEL)
            layers.append(Layer(f"conv{number}", (("weight", kernels), ("bias", (channels,)))))
            before, height, width = channels, -(-height // stride), -(-width // stride)
        self.layout: Layout = (*layers, linear_layer("out", before * height * width, outputs))
        self.group = together(self.layout, 400_000)

    def init(self, rng: np.random.Generator) -> Params:
        return draw_weights(self.layout, [int(np.prod(layer.tensors[0][1][1:])) for layer in self.layout], rng)

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        return linear(weights, "out", self.features(weights, x).flatten(2))

    def features(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        clients, batch = x.shape[:2]
        h = x.transpose(0, 1).flatten(1, 2)
        for number, stride in enumerate(self.strides, 1):
            kernels, bias = weights[f"conv{number}.weight"].flatten(0, 1), weights[f"conv{number}.bias"].flatten()
            h = self.activate(F.conv2d(h, kernels, bias, stride=stride, padding=_KERNEL // 2, groups=clients))
        return h.view(batch, clients, -1, *h.shape[2:]).transpose(0, 1)
