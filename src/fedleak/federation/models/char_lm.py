"""The character language model of Yuan et al. (2021): an embedding, LSTM layers with dropout, and an output layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from msgspec import Meta

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import DataError
from fedleak.federation.model import ActivationHooks, Input, Model, Signature, Tensors
from fedleak.federation.models.incremental import Reader, State
from fedleak.federation.models.lstm import lstm, lstm_layer
from fedleak.federation.models.parts import check_task, draw, linear, linear_layer, together, touch

__all__ = ["CharLm", "lookup", "drop"]


@dataclass(frozen=True, kw_only=True)
class CharLm:
    """A character-level LSTM language model."""

    embedding: Annotated[int, Meta(ge=1, description="embedding size")] = 32
    hidden: Annotated[int, Meta(ge=1, description="units of each LSTM layer")] = 128
    layers: Annotated[int, Meta(ge=1, le=3, description="number of LSTM layers")] = 1
    dropout: Annotated[float, Meta(ge=0, lt=1, description="dropout on each LSTM layer's outputs")] = 0.0

    name: ClassVar[str] = "char-lm"
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    reads: ClassVar[tuple[Input, ...]] = (Input.WORDS,)
    places: ClassVar[tuple[str, ...]] = ("embedding", "lstm")

    def build(self, signature: Signature) -> Model:
        """Layers `embedding`, `lstm1`, ... and `out`; output t predicts the character after input t."""
        check_task(self, signature)
        return _CharLm(signature.outputs, self)


class _CharLm:
    places = ("embedding", "lstm")

    def __init__(self, outputs: int, settings: CharLm) -> None:
        self.names = [f"lstm{n + 1}" for n in range(settings.layers)]
        self.hidden, self.dropout = settings.hidden, settings.dropout
        sizes = [settings.embedding] + [settings.hidden] * (settings.layers - 1)
        self.layout: Layout = (
            Layer("embedding", (("weight", (outputs, settings.embedding)),)),
            *(lstm_layer(name, size, settings.hidden) for name, size in zip(self.names, sizes, strict=True)),
            linear_layer("out", settings.hidden, outputs),
        )
        self.group = together(self.layout, 1_500_000)

    def init(self, rng: np.random.Generator) -> Params:
        return draw(self.layout, [0, *[self.hidden] * len(self.names), self.hidden], rng)

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
        h = touch(touches, "embedding", lookup(weights["embedding.weight"], x.transpose(1, 2)))
        for name in self.names:
            h = touch(touches, "lstm", drop(lstm(weights, name, h), self.dropout, rngs))
        out = linear(weights, "out", h.transpose(1, 2).reshape(clients, batch * length, self.hidden))
        return out.view(clients, batch, length, -1)

    def reader(self, weights: Tensors) -> Reader:
        return _Reader(weights, self.names)


def lookup(table: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Look tokens (clients, ...) up in each client's own table (clients, vocabulary, size), in one operation."""
    if int(tokens.max()) >= table.shape[1]:
        # Unchecked, it would be read from the next client's table.
        raise DataError(f"token {int(tokens.max())} is outside the model's vocabulary of {table.shape[1]} tokens")
    offset = torch.arange(len(tokens)).view(-1, *[1] * (tokens.dim() - 1)) * table.shape[1]
    return F.embedding(tokens + offset, table.flatten(0, 1))


def drop(values: torch.Tensor, share: float, rngs: Sequence[np.random.Generator]) -> torch.Tensor:
    """Leave out a share of the values (clients, ...) and scale up the rest (Srivastava et al., 2014).

    Each client draws its mask from a generator of its own. Without generators, when a model is used and not trained,
    nothing is left out.
    """
    if not rngs or not share:
        return values
    kept = np.stack([rng.random(values.shape[1:], dtype=np.float32) >= share for rng in rngs])
    return values * (torch.from_numpy(kept).to(values.dtype) / (1 - share))


@dataclass(frozen=True, slots=True)
class _Memory:
    """Hidden and cell states of every layer, each (snapshots, beginnings, hidden)."""

    hidden: tuple[torch.Tensor, ...]
    cells: tuple[torch.Tensor, ...]

    def take(self, rows: torch.Tensor) -> _Memory:
        return _Memory(
            tuple(h.index_select(1, rows) for h in self.hidden), tuple(c.index_select(1, rows) for c in self.cells)
        )


class _Reader:
    def __init__(self, weights: Tensors, names: Sequence[str]) -> None:
        self.weights, self.names = weights, names
        self.snapshots, _, self.size = weights["out.weight"].shape
        self.bias = {n: (weights[f"{n}.bias_ih"] + weights[f"{n}.bias_hh"]).unsqueeze(1) for n in names}
        self.recurrent = {n: weights[f"{n}.weight_hh"].transpose(1, 2) for n in names}
        self.inward = {n: weights[f"{n}.weight_ih"].transpose(1, 2) for n in names}
        # What each character adds to the first layer's gates is the same wherever it stands: worked out once.
        first = names[0]
        self.gates = torch.baddbmm(self.bias[first], weights["embedding.weight"], self.inward[first])

    def start(self) -> _Memory:
        zeros = tuple(torch.zeros(self.snapshots, 1, self.size) for _ in self.names)
        return _Memory(zeros, zeros)

    def read(self, state: State, tokens: torch.Tensor) -> tuple[torch.Tensor, State]:
        assert isinstance(state, _Memory)
        hidden: list[torch.Tensor] = []
        cells: list[torch.Tensor] = []
        for n, name in enumerate(self.names):
            if n:
                gates = torch.baddbmm(self.bias[name], hidden[-1], self.inward[name])
            else:
                gates = self.gates.index_select(1, tokens)
            gates.baddbmm_(state.hidden[n], self.recurrent[name])
            i, f, g, o = gates.chunk(4, -1)
            cell = f.sigmoid_().mul(state.cells[n]).addcmul_(i.sigmoid_(), g.tanh_())
            cells.append(cell)
            hidden.append(o.sigmoid_().mul(cell.tanh()))
        outputs = linear(self.weights, "out", hidden[-1])
        return torch.log_softmax(outputs, -1), _Memory(tuple(hidden), tuple(cells))
