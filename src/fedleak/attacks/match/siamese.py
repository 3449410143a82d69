"""Matching with a Siamese network, which learns the similarity of updates rather than identities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.match.pairs import EarlyStop, OnPairs, PairDraw, PairNetwork, asked_pairs, fit_pairs, labelled
from fedleak.attacks.network import dense
from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.lazy import functional, torch
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Siamese"]


@dataclass(frozen=True, kw_only=True)
class Siamese(PairNetwork, OnPairs):
    """A Siamese network: two shared layers, the L1 distance, one unit (Orekondy et al., 2020, Fig. 3b).

    Bromley et al. (1994) introduced it for signatures. It does not depend on identities, so it can be used on users it
    has never seen.
    """

    name: ClassVar[str] = "match-siamese"
    summary: ClassVar[str] = (
        "Trains a Siamese network on pairs of updates to tell whether both come from the same user."
    )

    patience: Annotated[
        int,
        Meta(
            ge=0,
            description="stop after so many epochs without a lower loss on pairs of held-out users, and keep the best "
            "weights; 0: train all epochs on all users",
        ),
    ] = 0
    held_out: Annotated[
        float, Meta(gt=0, lt=1, description="share of the labelled users held out to decide when to stop")
    ] = 0.2

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair by the network's logit."""
        asked, index = asked_pairs(view, questions, self.layer)
        known, who = labelled(view, self.layer, prior)
        order = np.argsort(who, kind="stable")
        rows, who = torch.from_numpy(known[order]), who[order]
        counts = np.unique(who, return_counts=True)[1]
        if len(counts) < 2 or counts.max() < 2:
            raise AttackError(
                "match-siamese learns from pairs of labelled updates, from one user and from two, but it has only "
                f"{len(who)} labelled updates from {len(counts)} users. Train more rounds, or see more users"
            )
        shared = [*dense(known.shape[1], self.hidden, context.rng), *dense(self.hidden, self.hidden, context.rng)]
        out = dense(self.hidden, 1, context.rng)

        def embed(inputs: torch.Tensor) -> torch.Tensor:
            return torch.relu(functional.linear(torch.relu(functional.linear(inputs, *shared[:2])), *shared[2:]))

        def score(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return functional.linear((first - second).abs(), *out).squeeze(1)

        def learn(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return score(*embed(rows[torch.cat([first, second])]).chunk(2))

        weights = [*shared, *out]
        if not self.patience:
            fit_pairs(weights, learn, lambda: draw_pairs(who, context.rng), self, context.rng)
        else:
            held = held_out(who, self.held_out, context.rng)
            judged = draw_among(np.flatnonzero(held), who, context.rng)
            kept = np.flatnonzero(~held)
            stop = EarlyStop(weights, learn, judged, self.patience)
            fit_pairs(weights, learn, lambda: draw_among(kept, who, context.rng), self, context.rng, stop)
            stop.restore()
        with torch.no_grad():
            embedded = embed(torch.from_numpy(asked))
            return score(embedded[index[:, 0]], embedded[index[:, 1]])[:, None].numpy()


def draw_pairs(who: IntArray, rng: np.random.Generator) -> PairDraw:
    """Pair every update with another one of the same user and with one of somebody else; `who` is sorted."""
    start, size = np.searchsorted(who, who), np.unique(who, return_inverse=True, return_counts=True)
    mine = size[2][size[1]]
    anchor = np.flatnonzero(mine > 1)
    start, mine = start[anchor], mine[anchor]
    same = start + (anchor - start + rng.integers(1, mine)) % mine
    other = rng.integers(0, len(who) - mine)
    other += np.where(other >= start, mine, 0)  # leave out the user's own block
    label = np.repeat(np.asarray([1, 0], dtype=np.float32), len(anchor))
    return np.tile(anchor, 2), np.concatenate([same, other]), label


def draw_among(rows: IntArray, who: IntArray, rng: np.random.Generator) -> PairDraw:
    """Pairs of these updates only."""
    first, second, label = draw_pairs(who[rows], rng)
    return rows[first], rows[second], label


def held_out(who: IntArray, share: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Which updates are of users held out. Both sides have two users at least, one of them with two updates."""
    users, counts = np.unique(who, return_counts=True)
    several = rng.permutation(users[counts > 1])
    if len(users) < 4 or len(several) < 2:
        raise AttackError(
            f"match-siamese: early stopping needs four labelled users, two of them with several updates, but there are "
            f"{len(users)}, {len(several)} with several; train more rounds, see more users, or set patience = 0"
        )
    # One with several updates for each side; then others at random.
    rest = rng.permutation(users[~np.isin(users, several[:2])])
    size = min(max(2, round(share * len(users))), len(users) - 2)
    return np.isin(who, [several[0], *rest[: size - 1]])
