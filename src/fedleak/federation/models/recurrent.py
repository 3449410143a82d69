"""Recurrent networks over tokens: a word-level language model and a rating regressor (Orekondy et al., 2020).

Token 0 pads, token 1 is unknown. Padding follows the text, so what the network computes there reaches no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from msgspec import Meta

from fedleak.core import Layer, Layout, Params, Task
from fedleak.errors import DataError, PlanError
from fedleak.federation.model import ActivationHooks, Input, Model, Signature, Tensors
from fedleak.federation.models.lstm import lstm, lstm_layer
from fedleak.federation.models.parts import check_task, draw, linear, linear_layer, together, touch

__all__ = ["WordLm", "Rating"]


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
        return _Recurrent(signature.outputs, self.embedding, self.hidden, signature.outputs, last_only=False)


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
        return _Recurrent(self.vocabulary, self.embedding, self.hidden, 1, last_only=True)


class _Recurrent:
    places = ("embedding", "lstm")

    def __init__(self, tokens: int, embedding: int, hidden: int, outputs: int, *, last_only: bool) -> None:
        self.layout: Layout = (
            Layer("embedding", (("weight", (tokens, embedding)),)),
            lstm_layer("lstm", embedding, hidden),
            linear_layer("out", hidden, outputs),
        )
        self.group = together(self.layout, 1_500_000)
        self.hidden = hidden
        self.last_only = last_only

    def init(self, rng: np.random.Generator) -> Params:
        return draw(self.layout, [0, self.hidden, self.hidden], rng)

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
        table = weights["embedding.weight"]
        if int(x.max()) >= table.shape[1]:
            # Unchecked, it would be read from the next client's table.
            raise DataError(f"token {int(x.max())} is outside the model's vocabulary of {table.shape[1]} tokens")
        # One lookup for all clients: client c's word w is row c * vocabulary + w of their stacked tables.
        offset = torch.arange(clients).view(-1, 1, 1) * table.shape[1]
        vectors = F.embedding(x.transpose(1, 2) + offset, table.flatten(0, 1))
        h = touch(touches, "lstm", lstm(weights, "lstm", touch(touches, "embedding", vectors)))
        if self.last_only:
            last = (x != 0).mul(torch.arange(length)).amax(2)
            h = h.gather(1, last.view(clients, 1, batch, 1).expand(-1, -1, -1, self.hidden)).squeeze(1)
            return linear(weights, "out", h)
        out = linear(weights, "out", h.transpose(1, 2).reshape(clients, batch * length, self.hidden))
        return out.view(clients, batch, length, -1)
