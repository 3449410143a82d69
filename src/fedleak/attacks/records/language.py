"""How an adversary reads text with snapshots of a run: a model that every client can build, and its alphabet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.core import IntArray, Layout, Params
from fedleak.errors import AttackError
from fedleak.federation.model import Model, Tensors
from fedleak.federation.models.incremental import Incremental, Reader, State
from fedleak.lazy import torch

__all__ = ["Language", "Opening"]


@dataclass(frozen=True, slots=True)
class Opening:
    """A reader that has read what comes before a record."""

    reader: Reader
    state: State
    logs: torch.Tensor  # (snapshots, 1, characters): log-probabilities of the record's first character


@dataclass(frozen=True)
class Language:
    """A character model without weights, its alphabet, and what stands before a record.

    The context matters: after the end of a line a model expects a line to begin, at the very start of a window it
    expects anything.
    """

    model: Model
    characters: tuple[str, ...]
    context: str = "\n"

    def open(self, *snapshots: Params) -> Opening:
        """Read the context with one or more snapshots at once."""
        if not isinstance(self.model, Incremental):
            raise AttackError(
                "records are scored character by character, which this model cannot; use 'char-lm' or 'transformer'"
            )
        reader = self.model.reader(stacked(self.model.layout, snapshots))
        state = reader.start()
        for token in self.encode([self.context])[0]:
            logs, state = reader.read(state, torch.tensor([token]))
        return Opening(reader, state, logs)

    def encode(self, texts: Sequence[str]) -> IntArray:
        """One row of ids for each text, with 0 after its end; what the alphabet lacks cannot be scored."""
        index = {character: number for number, character in enumerate(self.characters)}
        ids = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
        for row, text in enumerate(texts):
            try:
                ids[row, : len(text)] = [index[character] for character in text]
            except KeyError as error:
                raise AttackError(f"the model's alphabet has no {error}, so '{text}' cannot be scored") from None
        return ids

    def decode(self, ids: IntArray) -> list[str]:
        """Turn rows of ids back into texts."""
        return ["".join(self.characters[token] for token in row if token) for row in ids]


def stacked(layout: Layout, snapshots: Sequence[Params]) -> Tensors:
    """Put snapshots side by side on a leading axis, as a model expects them."""
    return {
        f"{layer.name}.{tensor}": torch.from_numpy(
            np.stack([weights[layer.name][layer.span(tensor)] for weights in snapshots])
        ).view(len(snapshots), *shape)
        for layer in layout
        for tensor, shape in layer.tensors
    }
