"""Shared by the matching attacks: pairs of updates to judge, and labelled updates to learn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from msgspec import Meta

from fedleak.attacks.aware import learn_from
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import layer_name, unit
from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.lazy import functional, torch
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["OnPairs", "PairNetwork", "asked_pairs", "require_pairs", "labelled", "fit_pairs", "EarlyStop", "PairDraw"]

PairDraw: TypeAlias = tuple[IntArray, IntArray, FloatArray]
"""First and second of each pair to learn from, and 1 where they match."""


@dataclass(frozen=True, kw_only=True)
class OnPairs(SingleLayerAttack):
    """Needs and layer of an attack that judges pairs of updates."""

    game: ClassVar[str] = "match"


@dataclass(frozen=True, kw_only=True)
class PairNetwork:
    """How a network on pairs is made and trained; the paper leaves batch and epochs open."""

    hidden: Annotated[int, Meta(ge=1, description="units of every layer before the distance")] = 128
    lr: Annotated[float, Meta(gt=0, description="learning rate of RMSProp")] = 1e-3
    batch: Annotated[int, Meta(ge=1, description="pairs in a step")] = 64
    epochs: Annotated[
        int, Meta(ge=1, description="epochs; in each, every labelled update is in one matching and one other pair")
    ] = 10


def asked_pairs(view: View, questions: Questions, layer: str) -> tuple[FloatArray, IntArray]:
    """Every update that is asked about once, scaled to length one, and for each question two rows of these."""
    require_pairs(questions)
    rows, index = np.unique(questions.updates, return_inverse=True)
    table = view.updates.layer(layer_name(view, layer))
    return unit(np.asarray(table[rows], dtype=np.float32)), index.reshape(questions.updates.shape)


def require_pairs(questions: Questions) -> None:
    """Reject questions that are not about two different updates."""
    if questions.updates.ndim != 2 or questions.updates.shape[1] != 2:
        raise AttackError("a matching attack needs questions about pairs of updates; use it in the game 'match'")
    twice = np.flatnonzero(questions.updates[:, 0] == questions.updates[:, 1])
    if len(twice):
        raise AttackError(
            f"question {int(twice[0])} pairs update {int(questions.updates[twice[0], 0])} with itself, which matches "
            "whoever sent it; ask about two different updates"
        )


def labelled(view: View, layer: str, prior: Prior) -> tuple[FloatArray, IntArray]:
    """The updates whose user the adversary knows, scaled to length one, and their candidates.

    A defence-aware attacker has them without the defence, where that identifies better.
    """
    rows = np.flatnonzero(view.updates.shadow >= 0)
    if len(rows) == 0:
        raise AttackError("no shadow client was selected in any round, so no labelled update exists; train more rounds")
    name = layer_name(view, layer)
    known = unit(np.asarray(view.updates.layer(name)[rows], dtype=np.float32))
    return learn_from(view, prior, rows, known, lambda made: unit(made[name])), view.updates.shadow[rows]


def fit_pairs(
    weights: Sequence[torch.Tensor],
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    draw: Callable[[], PairDraw],
    settings: PairNetwork,
    rng: np.random.Generator,
    stop: EarlyStop | None = None,
) -> None:
    """Minimise the binary cross-entropy of `score` (a logit for each pair) by RMSProp, on new pairs every epoch.

    With `stop`, end as soon as it says so.
    """
    # Decay and floor are the defaults of the paper's library, not of this one.
    optimizer = torch.optim.RMSprop(weights, lr=settings.lr, alpha=0.9, eps=1e-7, foreach=True)
    for _ in range(settings.epochs):
        first, second, same = (torch.from_numpy(column) for column in draw())
        for batch in torch.split(torch.from_numpy(rng.permutation(len(same))), settings.batch):
            loss = functional.binary_cross_entropy_with_logits(score(first[batch], second[batch]), same[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if stop is not None and stop.now():
            break


class EarlyStop:
    """Stop when pairs that are not learnt from, of users who are not learnt from, are judged no better any more."""

    def __init__(
        self,
        weights: Sequence[torch.Tensor],
        score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        judged: PairDraw,
        patience: int,
    ) -> None:
        self.losses: list[float] = []
        self._weights, self._score, self._patience = weights, score, patience
        self._first, self._second, self._same = (torch.from_numpy(column) for column in judged)
        self._best = [weight.detach().clone() for weight in weights]

    def now(self) -> bool:
        """Judge the weights after an epoch: whether to stop."""
        with torch.no_grad():
            found = self._score(self._first, self._second)
            loss = float(functional.binary_cross_entropy_with_logits(found, self._same))
        if loss < min(self.losses, default=np.inf):
            self._best = [weight.detach().clone() for weight in self._weights]
        self.losses.append(loss)
        return len(self.losses) - 1 - int(np.argmin(self.losses)) >= self._patience

    def restore(self) -> None:
        """Go back to the best weights."""
        with torch.no_grad():
            for weight, best in zip(self._weights, self._best, strict=True):
                weight.copy_(best)
