"""The character language model of Yuan et al. (2021): an embedding, LSTM layers with dropout, and an output layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from fedleak.core import Task
from fedleak.federation.model import Input, Model, Signature, Tensors
from fedleak.federation.models.incremental import Reader, State
from fedleak.federation.models.parts import check_task, linear
from fedleak.federation.models.recurrent import Recurrent
from fedleak.lazy import torch

__all__ = ["CharLm"]

_KERAS = 0.05  # the bound of Keras' uniform initialiser


@dataclass(frozen=True, kw_only=True)
class CharLm:
    """A character-level LSTM language model."""

    embedding: Annotated[int, Meta(ge=1, description="embedding size")] = 32
    hidden: Annotated[int, Meta(ge=1, description="units of each LSTM layer")] = 128
    layers: Annotated[int, Meta(ge=1, le=3, description="number of LSTM layers")] = 1
    dropout: Annotated[float, Meta(ge=0, lt=1, description="dropout on each LSTM layer's outputs")] = 0.0
    initial: Annotated[
        Literal["normal", "uniform"],
        Meta(description="initial embeddings: unit normals (PyTorch), or uniform between -0.05 and 0.05 (Keras)"),
    ] = "normal"

    name: ClassVar[str] = "char-lm"
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    reads: ClassVar[tuple[Input, ...]] = (Input.WORDS,)
    places: ClassVar[tuple[str, ...]] = ("embedding", "lstm")

    def build(self, signature: Signature) -> Model:
        """Layers `embedding`, `lstm1`, ... and `out`; output t predicts the character after input t."""
        check_task(self, signature)
        names = [f"lstm{n + 1}" for n in range(self.layers)]
        return _CharLm(
            signature.outputs,
            self.embedding,
            self.hidden,
            signature.outputs,
            names,
            dropout=self.dropout,
            spread=_KERAS if self.initial == "uniform" else None,
        )


class _CharLm(Recurrent):
    def reader(self, weights: Tensors) -> Reader:
        return _Reader(weights, self.names)


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
