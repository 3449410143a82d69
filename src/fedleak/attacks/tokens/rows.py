"""Which words a client trained on, from the rows of the embedding that moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import stream_rows
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, FloatArray, Layer, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.game import Predictions, Questions
from fedleak.games.tokens import TokenQuestions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["TokenRows", "named"]


@dataclass(frozen=True, kw_only=True)
class TokenRows:
    """Name the words whose row of the embedding moved (Melis et al., 2019), and those whose output bias rose.

    A row has a gradient only where its word is read, and a word's output bias rises only where it is to be predicted.
    Where every row moves (a tied embedding, noise, weight decay), rows are split where their lengths come apart most
    clearly (Otsu, 1979).
    """

    name: ClassVar[str] = "token-rows"
    summary: ClassVar[str] = "Names the words whose rows of the embedding, or whose output bias, one update moves."
    game: ClassVar[str] = "tokens"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    work = by_rounds

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Score a word above 0 if it is named."""
        assert isinstance(questions, TokenQuestions)
        words = questions.vocabulary
        layer, tensor = _embedding(view, words)
        span = layer.span(tensor)

        def lengths(block: FloatArray) -> FloatArray:
            return np.asarray(np.linalg.norm(block[:, span].reshape(len(block), words, -1), axis=2), dtype=np.float32)

        moved = stream_rows(view, layer.name, questions.updates, lengths, words)
        last = view.layout[-1]
        rises = np.zeros_like(moved)
        if dict(last.tensors).get("bias") == (words,) and last.name not in view.unrecorded:
            bias = last.span("bias")
            rises = stream_rows(view, last.name, questions.updates, lambda block: block[:, bias], words)
        return np.stack([named(*pair) for pair in zip(moved, rises, strict=True)])


def named(moved: FloatArray, rises: FloatArray) -> FloatArray:
    """The score of every word, from the length of its row's move and the rise of its output bias.

    >>> named(np.array([0.0, 2.0, 0.0]), np.array([-0.1, -0.1, 0.1])).tolist()
    [-1.0, 1.0, 1.0]
    >>> (named(np.array([0.011, 2.0, 0.012, 0.01, 1.5]), np.zeros(5)) > 0).tolist()
    [False, True, False, False, True]
    """
    if (moved == 0).any():
        return np.where((moved > 0) | (rises > 0), 1.0, -1.0).astype(np.float32)
    lengths = np.log(moved.astype(np.float64))
    order = np.sort(lengths)
    below = np.arange(1, len(order))
    sums = np.cumsum(order)
    left, right = sums[:-1] / below, (sums[-1] - sums[:-1]) / (len(order) - below)
    best = int(np.argmax(below * (len(order) - below) * (right - left) ** 2))
    return np.asarray(lengths - (order[best] + order[best + 1]) / 2, dtype=np.float32)


def _embedding(view: View, words: int) -> tuple[Layer, str]:
    """The first tensor with one row for each word."""
    for layer in view.layout:
        for name, shape in layer.tensors:
            if len(shape) == 2 and shape[0] == words and layer.name not in view.unrecorded:
                return layer, name
    raise AttackError(
        f"attack 'token-rows': no recorded layer has a row for each of the {words} words; it needs a model with an "
        "embedding whose updates are recorded"
    )
