"""Read text one character after another with a model that only takes whole texts.

The state is the text so far, which is read again for every character: slower than a model that keeps its own state,
but it needs nothing of the model, except that an output depends on the characters up to its place only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedleak.federation.model import Tensors
from fedleak.federation.models.incremental import State
from fedleak.lazy import torch

__all__ = ["PrefixReader"]

_AT_ONCE = 100_000  # characters that are read together


@dataclass(frozen=True, slots=True)
class _Prefixes:
    tokens: torch.Tensor  # (beginnings, characters so far)

    def take(self, rows: torch.Tensor) -> _Prefixes:
        return _Prefixes(self.tokens.index_select(0, rows))


class PrefixReader:
    """A model with the weights of some snapshots; see `Reader`."""

    def __init__(self, forward: Callable[[Tensors, torch.Tensor], torch.Tensor], weights: Tensors) -> None:
        """`forward` takes weights and texts with a leading axis of one, as a model of one's own does."""
        self._forward = forward
        snapshots = len(next(iter(weights.values())))
        self._snapshots = [{key: value[at : at + 1] for key, value in weights.items()} for at in range(snapshots)]

    def start(self) -> _Prefixes:
        """Nothing was read."""
        return _Prefixes(torch.zeros((1, 0), dtype=torch.int64))

    def read(self, state: State, tokens: torch.Tensor) -> tuple[torch.Tensor, State]:
        """Read every text again with one more character, as many at once as fit."""
        assert isinstance(state, _Prefixes)
        longer = torch.cat([state.tokens, tokens[:, None]], dim=1)
        parts = torch.split(longer, max(1, _AT_ONCE // longer.shape[1]))
        logs = [
            torch.cat([self._forward(weights, part[None])[0, :, -1].float().log_softmax(-1) for part in parts])
            for weights in self._snapshots
        ]
        return torch.stack(logs), _Prefixes(longer)
