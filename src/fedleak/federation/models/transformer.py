"""A small causal transformer over characters: what is deployed today where the paper used an LSTM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import ActivationHooks, Input, Model, Signature, Tensors
from fedleak.federation.models.incremental import Reader, State
from fedleak.federation.models.parts import check_task, drop, linear_layer, lookup, together, uniform
from fedleak.lazy import functional as F
from fedleak.lazy import torch

__all__ = ["Transformer"]


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A character-level transformer language model (Vaswani et al., 2017).

    Pre-layer normalisation (Xiong et al., 2020) lets it train without a warm-up. Positions are relative (rotary
    embeddings; Su et al., 2021): what is learnt at one position of a text holds at every other, as in deployed language
    models.
    """

    width: Annotated[int, Meta(ge=2, description="embedding size")] = 64
    heads: Annotated[int, Meta(ge=1, description="attention heads; width must be a multiple")] = 4
    layers: Annotated[int, Meta(ge=1, le=12, description="blocks of attention and feed-forward")] = 2
    tied: Annotated[bool, Meta(description="tie the output layer to the embedding")] = False
    dropout: Annotated[float, Meta(ge=0, lt=1, description="dropout on each block's outputs")] = 0.0

    name: ClassVar[str] = "transformer"
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    reads: ClassVar[tuple[Input, ...]] = (Input.WORDS,)
    places: ClassVar[tuple[str, ...]] = ("embedding",)

    def build(self, signature: Signature) -> Model:
        """Layers `embedding`, `attention1`, `feedforward1`, ..., `norm` and, if not tied, `out`."""
        check_task(self, signature)
        if self.width % self.heads:
            raise PlanError(f"model 'transformer': width = {self.width} cannot be divided among heads = {self.heads}")
        if self.width // self.heads % 2:
            raise PlanError(
                f"model 'transformer': width = {self.width} gives each of heads = {self.heads} an odd size "
                f"({self.width // self.heads}), but rotary positions need an even one; change width or heads"
            )
        return _Transformer(signature.outputs, self)


class _Transformer:
    places = ("embedding",)

    def __init__(self, outputs: int, settings: Transformer) -> None:
        self.settings = settings
        width = settings.width
        norm = (("norm_weight", (width,)), ("norm_bias", (width,)))
        blocks: list[Layer] = []
        for n in range(1, settings.layers + 1):
            blocks.append(Layer(f"attention{n}", (*norm, *_two(width, 3 * width, width))))
            blocks.append(Layer(f"feedforward{n}", (*norm, *_two(width, 4 * width, 4 * width))))
        self.layout: Layout = (
            Layer("embedding", (("weight", (outputs, width)),)),
            *blocks,
            Layer("norm", norm),
            *(() if settings.tied else (linear_layer("out", width, outputs),)),
        )
        self.group = together(self.layout, 1_500_000)

    def init(self, rng: np.random.Generator) -> Params:
        """As in GPT-2 (Radford et al., 2019): small embeddings, and blocks that add the less the more there are."""
        return {
            layer.name: np.concatenate([self._draw(*tensor, rng) for tensor in layer.tensors]) for layer in self.layout
        }

    def _draw(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        size = math.prod(shape)
        if name == "norm_weight":
            return np.ones(size, dtype=np.float32)
        if len(shape) == 1:
            return np.zeros(size, dtype=np.float32)
        if name == "weight":
            return (0.02 * rng.standard_normal(size)).astype(np.float32)
        added = math.sqrt(2 * self.settings.layers) if name == "out_weight" else 1.0
        return uniform(rng, size, 1 / math.sqrt(shape[1]) / added)

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        return self.train_forward(weights, x, ())

    def train_forward(
        self,
        weights: Tensors,
        x: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        touches: ActivationHooks | None = None,
    ) -> torch.Tensor:
        clients, batch, length = x.shape
        heads = self.settings.heads
        h = lookup(weights["embedding.weight"], x)
        if touches and "embedding" in touches:
            h = touches["embedding"](h)
        h = h.reshape(clients, batch * length, -1)
        turn = _Turn(torch.arange(length), self.settings.width // heads)
        for n in range(1, self.settings.layers + 1):
            mixed = _linear(weights, f"attention{n}.in", _norm(weights, f"attention{n}", h))
            q, k, v = mixed.view(clients * batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
            found = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)
            found = found.transpose(1, 2).reshape(clients, batch * length, -1)
            h = h + drop(_linear(weights, f"attention{n}.out", found), self.settings.dropout, rngs)
            h = h + drop(_feedforward(weights, n, h), self.settings.dropout, rngs)
        return _outputs(weights, h).view(clients, batch, length, -1)

    def reader(self, weights: Tensors) -> Reader:
        return _Reader(weights, self.settings)


def _two(width: int, made: int, handed_on: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The two linear layers of a block; attention hands on only a third of what the first one makes."""
    return (
        ("in_weight", (made, width)),
        ("in_bias", (made,)),
        ("out_weight", (width, handed_on)),
        ("out_bias", (width,)),
    )


class _Turn:
    """Turns each pair of numbers of a query or a key by an angle that grows with its position.

    The angle between a query and a key then depends only on how far apart they stand.
    """

    def __init__(self, positions: torch.Tensor, size: int) -> None:
        speeds = 10_000.0 ** (-torch.arange(size // 2) / (size // 2))
        angles = positions[:, None] * speeds
        self.cos, self.sin = angles.cos(), angles.sin()  # (positions, size / 2)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        one, other = x.chunk(2, -1)
        return torch.cat([one * self.cos - other * self.sin, other * self.cos + one * self.sin], -1)


def _linear(weights: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    return torch.baddbmm(weights[f"{name}_bias"].unsqueeze(1), x, weights[f"{name}_weight"].transpose(1, 2))


def _norm(weights: Tensors, name: str, x: torch.Tensor) -> torch.Tensor:
    """Layer normalisation (Ba et al., 2016), with each client's own scale."""
    scale, shift = weights[f"{name}.norm_weight"].unsqueeze(1), weights[f"{name}.norm_bias"].unsqueeze(1)
    return torch.addcmul(shift, F.layer_norm(x, x.shape[-1:]), scale)


def _feedforward(weights: Tensors, n: int, h: torch.Tensor) -> torch.Tensor:
    name = f"feedforward{n}"
    return _linear(weights, f"{name}.out", F.gelu(_linear(weights, f"{name}.in", _norm(weights, name, h))))


def _outputs(weights: Tensors, h: torch.Tensor) -> torch.Tensor:
    h = _norm(weights, "norm", h)
    if "out.weight" not in weights:
        return torch.bmm(h, weights["embedding.weight"].transpose(1, 2))
    return torch.baddbmm(weights["out.bias"].unsqueeze(1), h, weights["out.weight"].transpose(1, 2))


@dataclass(frozen=True, slots=True)
class _Memory:
    """Keys and values of every layer: of the beginning that all have in common, and of what each read since.

    The common part is kept once: with it in every row, the memory of a search would be mostly copies of it.
    """

    common: tuple[tuple[torch.Tensor, torch.Tensor], ...]  # (snapshots, heads, characters, size)
    own: tuple[tuple[torch.Tensor, torch.Tensor], ...]  # (snapshots, heads, beginnings, characters, size)

    @property
    def read(self) -> int:
        return self.common[0][0].shape[2] + self.own[0][0].shape[3]

    def take(self, rows: torch.Tensor) -> _Memory:
        if self.own[0][0].shape[2] > 1:
            return _Memory(self.common, tuple((k.index_select(2, rows), v.index_select(2, rows)) for k, v in self.own))
        joined, empty = [], []
        for (k, v), (own_k, own_v) in zip(self.common, self.own, strict=True):
            joined.append((torch.cat([k, own_k[:, :, 0]], 2), torch.cat([v, own_v[:, :, 0]], 2)))
            nothing = own_k.new_zeros(*own_k.shape[:2], len(rows), 0, own_k.shape[-1])
            empty.append((nothing, nothing))
        return _Memory(tuple(joined), tuple(empty))


class _Reader:
    def __init__(self, weights: Tensors, settings: Transformer) -> None:
        self.weights, self.settings = weights, settings
        self.snapshots, _, self.width = weights["embedding.weight"].shape

    def start(self) -> _Memory:
        heads = self.settings.heads
        common = torch.zeros(self.snapshots, heads, 0, self.width // heads)
        own = torch.zeros(self.snapshots, heads, 1, 0, self.width // heads)
        return _Memory(((common, common),) * self.settings.layers, ((own, own),) * self.settings.layers)

    def read(self, state: State, tokens: torch.Tensor) -> tuple[torch.Tensor, State]:
        assert isinstance(state, _Memory)
        weights = self.weights
        turn = _Turn(torch.tensor([state.read]), self.width // self.settings.heads)
        h = weights["embedding.weight"].index_select(1, tokens)
        kept = []
        for n in range(1, self.settings.layers + 1):
            mixed = _linear(weights, f"attention{n}.in", _norm(weights, f"attention{n}", h))
            q, k, v = mixed.view(*mixed.shape[:2], 3, self.settings.heads, -1).permute(2, 0, 3, 1, 4)
            own_k, own_v = (
                torch.cat([past, now.unsqueeze(3)], 3) for past, now in zip(state.own[n - 1], (turn(k), v), strict=True)
            )
            kept.append((own_k, own_v))
            found = _attend(turn(q), state.common[n - 1], (own_k, own_v)).transpose(1, 2).flatten(2)
            h = h + _linear(weights, f"attention{n}.out", found)
            h = h + _feedforward(weights, n, h)
        return torch.log_softmax(_outputs(weights, h), -1), _Memory(state.common, tuple(kept))


def _attend(
    q: torch.Tensor, common: tuple[torch.Tensor, torch.Tensor], own: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Attention of one new character (snapshots, heads, beginnings, size) to all before it and to itself."""
    scores = torch.cat([q @ common[0].transpose(-1, -2), (own[0] @ q.unsqueeze(-1)).squeeze(-1)], -1)
    share = torch.softmax(scores / math.sqrt(q.shape[-1]), -1)
    split = common[0].shape[2]
    return share[..., :split] @ common[1] + (share[..., None, split:] @ own[1]).squeeze(-2)
