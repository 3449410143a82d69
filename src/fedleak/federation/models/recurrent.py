"""Recurrent networks over tokens: a word-level language model and a rating regressor (Orekondy et al., 2020).

Token 0 pads, token 1 is unknown. Padding follows the text, so what the network computes there reaches no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import PlanError
from fedleak.federation.model import ActivationHooks, Input, Model, Signature, Tensors
from fedleak.federation.models.lstm import lstm, lstm_layer
from fedleak.federation.models.parts import (
    check_task,
    draw_weights,
    drop,
    linear,
    linear_layer,
    lookup,
    together,
    touch,
    uniform,
)
from fedleak.lazy import torch

__all__ = ["WordLm", "Rating", "Recurrent"]


@dataclass(frozen=True, kw_only=True)
class WordLm:
    """A word-level LSTM language model: an embedding, an LSTM and an output layer."""

    embedding: Annotated[int, Meta(ge=1, description="embedding size")] = 100
    hidden: Annotated[int, Meta(ge=1, description="units of the LSTM")] = 64

    name: ClassVar[str] = "word-lm"
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    reads: ClassVar[tuple[Input, ...]] = (Input.WORDS,)
    places: ClassVar[tuple[str, ...]] = ("embedding", "lstm")

    def build(self, signature: Signature) -> Model:
        """Layers `embedding`, `lstm` and `out`; output t predicts the token after input t."""
        check_task(self, signature)
        return Recurrent(signature.outputs, self.embedding, self.hidden, signature.outputs)


@dataclass(frozen=True, kw_only=True)
class Rating:
    """An LSTM regressor that predicts a number, such as a review's stars, from words."""

    embedding: Annotated[int, Meta(ge=1, description="embedding size")] = 50
    hidden: Annotated[int, Meta(ge=1, description="units of the LSTM")] = 128
    vocabulary: Annotated[int, Meta(ge=2, description="how many tokens there are, padding and unknown included")] = 5000

    name: ClassVar[str] = "rating"
    tasks: ClassVar[tuple[Task, ...]] = (Task.REGRESS,)
    reads: ClassVar[tuple[Input, ...]] = (Input.WORDS,)
    places: ClassVar[tuple[str, ...]] = ("embedding", "lstm")

    def build(self, signature: Signature) -> Model:
        """Layers `embedding`, `lstm` and `out`; the output follows the last word."""
        check_task(self, signature)
        if len(signature.input_shape) != 1:
            raise PlanError(f"model 'rating' needs tokens; the data has shape {signature.input_shape}")
        return Recurrent(self.vocabulary, self.embedding, self.hidden, 1, last_only=True)


class Recurrent:
    """An embedding, LSTM layers one above the other, and an output layer after every token or after the last one."""

    places = ("embedding", "lstm")

    def __init__(
        self,
        tokens: int,
        embedding: int,
        hidden: int,
        outputs: int,
        names: Sequence[str] = ("lstm",),
        *,
        dropout: float = 0.0,
        last_only: bool = False,
        spread: float | None = None,
    ) -> None:
        """`spread` bounds uniform initial embeddings; without it they are unit normals."""
        self.spread = spread
        self.names, self.hidden, self.dropout, self.last_only = names, hidden, dropout, last_only
        sizes = [embedding] + [hidden] * (len(names) - 1)
        self.layout: Layout = (
            Layer("embedding", (("weight", (tokens, embedding)),)),
            *(lstm_layer(name, size, hidden) for name, size in zip(names, sizes, strict=True)),
            linear_layer("out", hidden, outputs),
        )
        self.group = together(self.layout, 1_500_000)

    def init(self, rng: np.random.Generator) -> Params:
        """Embeddings from a unit normal, or uniform where they have a `spread`; the rest by fan-in."""
        found = draw_weights(self.layout, [0, *[self.hidden] * len(self.names), self.hidden], rng)
        if self.spread is not None:
            return {**found, "embedding": uniform(rng, len(found["embedding"]), self.spread)}
        return found

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        """As trained, without dropout."""
        return self.train_forward(weights, x, ())

    def train_forward(
        self,
        weights: Tensors,
        x: torch.Tensor,
        rngs: Sequence[np.random.Generator],
        touches: ActivationHooks | None = None,
    ) -> torch.Tensor:
        """Inside, time comes before the batch: (clients, length, batch, size)."""
        clients, batch, length = x.shape
        h = touch(touches, "embedding", lookup(weights["embedding.weight"], x.transpose(1, 2)))
        for name in self.names:
            h = touch(touches, "lstm", drop(lstm(weights, name, h), self.dropout, rngs))
        if self.last_only:
            last = (x != 0).mul(torch.arange(length)).amax(2)
            h = h.gather(1, last.view(clients, 1, batch, 1).expand(-1, -1, -1, self.hidden)).squeeze(1)
            return linear(weights, "out", h)
        out = linear(weights, "out", h.transpose(1, 2).reshape(clients, batch * length, self.hidden))
        return out.view(clients, batch, length, -1)
