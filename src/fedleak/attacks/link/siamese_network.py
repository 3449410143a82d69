"""A Siamese network that learns to name shadow clients and to tell pairs of them apart (Song et al., 2020, Fig. 4).

Identification and verification share one embedding. Afterwards both heads are thrown away: the clients to be linked are
others, and embeddings of length one are compared as they are (section VI-B1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta

from fedleak.attacks.features import unit
from fedleak.attacks.link.base import Embed, Shadows, standardised
from fedleak.attacks.match.siamese import draw_pairs
from fedleak.attacks.network import dense
from fedleak.core import FloatArray
from fedleak.federation.engines.embedded import one_thread
from fedleak.lazy import functional, torch

__all__ = ["JointNetwork", "fit_joint"]

Look: TypeAlias = "Callable[[torch.Tensor], torch.Tensor]"
"""Inputs -> embeddings, (rows, dims)."""


@dataclass(frozen=True, kw_only=True)
class JointNetwork:
    """How the network is trained: as in the paper, but with noise on what it sees.

    Shadow representatives are few and of other clients; without noise on them the network learns them by heart and
    links nothing across many rounds.
    """

    lr: Annotated[float, Meta(gt=0, description="learning rate of SGD with momentum 0.9")] = 1e-3
    epochs: Annotated[
        int, Meta(ge=0, description="epochs; in each, every shadow update is in one matching and one other pair")
    ] = 30
    batch: Annotated[int, Meta(ge=2, description="pairs in a step")] = 32
    standardise: Annotated[
        bool, Meta(description="give every input mean 0 and standard deviation 1 (the paper does not say)")
    ] = True
    noise: Annotated[
        float, Meta(ge=0, description="noise on each input in training, in units of its standard deviation")
    ] = 0.5


def fit_joint(
    look: Look,
    weights: Sequence[torch.Tensor],
    known: Shadows,
    settings: JointNetwork,
    rng: np.random.Generator,
) -> Embed:
    """Train `weights`, through which `look` sees, on the sum of both losses."""
    # A copy: torch takes no array that is read-only.
    prepare: Embed = standardised if settings.standardise else np.array
    order = np.argsort(known.who, kind="stable")
    rows, who = torch.from_numpy(prepare(known.rows[order])), known.who[order]
    names = torch.from_numpy(who)
    spread = rows.std()
    noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
    with one_thread():
        with torch.no_grad():
            dims = look(rows[:1]).shape[1]
        naming, telling = dense(dims, int(who.max()) + 1, rng), dense(dims, 1, rng)
        learnt = [*weights, *naming, *telling]
        optimizer = torch.optim.SGD(learnt, lr=settings.lr, momentum=0.9)
        for _ in range(settings.epochs):
            first, second, same = (torch.from_numpy(column) for column in draw_pairs(who, rng))
            for pairs in torch.split(torch.from_numpy(rng.permutation(len(same))), settings.batch):
                chosen = torch.cat([first[pairs], second[pairs]])
                seen = rows[chosen]
                # What is not there (a class that a client has not) stays empty.
                seen = seen + settings.noise * spread * torch.randn(seen.shape, generator=noise) * (seen != 0)
                embedded = look(seen)
                apart = torch.sub(*embedded.chunk(2)).square()
                loss = functional.cross_entropy(functional.linear(embedded, *naming), names[chosen])
                told = functional.linear(apart, *telling).squeeze(1)
                loss = loss + functional.binary_cross_entropy_with_logits(told, same[pairs])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()

    def embed(asked: FloatArray) -> FloatArray:
        with one_thread(), torch.no_grad():
            parts = torch.split(torch.from_numpy(prepare(asked)), 64)
            return unit(np.concatenate([look(part).numpy() for part in parts]))

    return embed
