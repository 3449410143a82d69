"""MobileNet: a deep image network designed for phones (Howard et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import Input, Model, Signature, Tensors
from fedleak.federation.models.parts import check_task, draw_weights, linear, linear_layer, together
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["MobileNet"]

_STEM = 32
# Channels and stride of the 13 blocks (Howard et al., 2017, Table 1).
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
_TOGETHER = 8  # channels that are normalised together; all channel counts are multiples of it


@dataclass(frozen=True, kw_only=True)
class MobileNet:
    """MobileNet (Howard et al., 2017): a convolution, depthwise separable blocks and an output layer.

    Each convolution is followed by group normalisation (Wu and He, 2018) and ReLU. The original normalises by batch:
    its running means are no weights, so averaging clients does not cover them, and a client's batch would be
    normalised by its own users. The normalisation's scale and shift belong to the layer they follow, so 13 blocks
    have 28 layers: `stem`, `dw1`, `pw1`, ..., `pw13` and `out`.
    """

    width: Annotated[float, Meta(gt=0, le=4, description="factor on the channels of every layer")] = 0.25
    blocks: Annotated[int, Meta(ge=1, le=13, description="how many of the 13 blocks")] = 13
    halvings: Annotated[
        int,
        Meta(
            ge=0,
            le=5,
            description="how many of the five stride-2 layers keep their stride, from the input on; use fewer for "
            "small images",
        ),
    ] = 3

    name: ClassVar[str] = "mobilenet"
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.REGRESS)
    reads: ClassVar[tuple[Input, ...]] = (Input.NUMBERS,)

    def build(self, signature: Signature) -> Model:
        """Layers `stem`, `dw1`, `pw1`, ... and `out`."""
        check_task(self, signature)
        if len(signature.input_shape) != 3:
            raise PlanError(
                f"model 'mobilenet' needs images (channel, height, width); the data has shape "
                f"{signature.input_shape}; choose model 'mlp'"
            )
        return _MobileNet(self, signature.input_shape[0], signature.outputs)

    def channels(self, wanted: int) -> int:
        """Channels of a layer: near the width's share, and whole groups."""
        return max(_TOGETHER, round(wanted * self.width / _TOGETHER) * _TOGETHER)


class _MobileNet:
    def __init__(self, settings: MobileNet, channels: int, outputs: int) -> None:
        left = settings.halvings

        def stride(wanted: int) -> int:
            nonlocal left
            left -= wanted == 2
            return wanted if left >= 0 else 1

        last = settings.channels(_STEM)
        self.strides = {"stem": stride(2)}
        layers = [_layer("stem", (last, channels, 3, 3))]
        for i, (wanted, step) in enumerate(_BLOCKS[: settings.blocks], 1):
            after = settings.channels(wanted)
            self.strides |= {f"dw{i}": stride(step), f"pw{i}": 1}
            layers += [_layer(f"dw{i}", (last, 1, 3, 3)), _layer(f"pw{i}", (after, last, 1, 1))]
            last = after
        self.layout: Layout = (*layers, linear_layer("out", last, outputs))
        self.group = together(self.layout, 1_600_000)

    def init(self, rng: np.random.Generator) -> Params:
        weights = dict(draw_weights(self.layout, [int(np.prod(layer.tensors[0][1][1:])) for layer in self.layout], rng))
        for layer in self.layout[:-1]:
            weights[layer.name][layer.span("scale")] = 1
            weights[layer.name][layer.span("shift")] = 0
        return weights

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        clients, batch = x.shape[:2]
        # Each client's channels lie beside the others' and meet only their own kernels and normalisation.
        h = x.transpose(0, 1).flatten(1, 2)
        for layer in self.layout[:-1]:
            name = layer.name
            kernels, scale, shift = (weights[f"{name}.{tensor}"].flatten(0, 1) for tensor, _ in layer.tensors)
            depthwise = name.startswith("dw")
            h = F.conv2d(
                h,
                kernels,
                stride=self.strides[name],
                padding=kernels.shape[-1] // 2,
                groups=h.shape[1] if depthwise else clients,
            )
            h = F.group_norm(h, h.shape[1] // _TOGETHER, scale, shift).relu_()
        return linear(weights, "out", h.mean((2, 3)).view(batch, clients, -1).transpose(0, 1))


def _layer(name: str, kernels: tuple[int, ...]) -> Layer:
    """A convolution without bias, since the normalisation after it would remove it, and that normalisation."""
    return Layer(name, (("weight", kernels), ("scale", kernels[:1]), ("shift", kernels[:1])))
