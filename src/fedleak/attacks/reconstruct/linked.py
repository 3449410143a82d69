"""Reconstruction from anonymous updates: link first, then draw (Song et al., 2020, section VI)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.features import unit
from fedleak.attacks.link.base import Linker, standardised
from fedleak.attacks.link.cosine import LinkCosine, LinkRepresentativesCosine
from fedleak.attacks.reconstruct.prior import MganPrior
from fedleak.attacks.reconstruct.victim_context import Scene
from fedleak.attacks.shadow import model_of
from fedleak.core import IntArray, Observation
from fedleak.games.game import Questions
from fedleak.lazy import scipy
from fedleak.views.view import View

__all__ = ["MganLinked", "tracks"]


@dataclass(frozen=True, kw_only=True)
class MganLinked(MganPrior):
    """`mgan-prior` by a server that sees anonymous updates: it first links those that come from the same client.

    From the last round backwards, the updates of a round are assigned one to one to those linked before: all come from
    one fixed group of clients (section VI-A). What is drawn for an update is then drawn from all that was linked to it.
    """

    name: ClassVar[str] = "mgan-linked"
    summary: ClassVar[str] = (
        "Links anonymous updates that come from the same client, then reconstructs that client's images (mGAN-AI)."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES

    by: Annotated[Literal["updates", "representatives"], Meta(description="what is compared to link two rounds")] = (
        "updates"
    )
    vote: Annotated[int, Meta(ge=1, description="rounds linked before that an update is compared with (K)")] = 3

    def scene(self, view: View, questions: Questions) -> Scene:
        """The run with inferred links."""
        linker: Linker = LinkCosine() if self.by == "updates" else LinkRepresentativesCosine()
        return Scene(view, questions, tracks(view, linker, self.vote))


def tracks(view: View, linker: Linker, vote: int) -> IntArray:
    """A number for each update, the same for those that seem to come from one client."""
    model, number = model_of(view), np.full(len(view.updates), -1, dtype=np.int64)
    seen: list[list[np.ndarray]] = []
    for when in range(view.rounds, 0, -1):
        rows = np.flatnonzero(view.updates.round == when)
        if not len(rows):
            continue
        sent = {layer.name: view.updates.layer(layer.name)[rows] for layer in view.layout}
        described = linker.describe(view, model, view.snapshot(when - 1), sent)
        vectors = unit(standardised(described).reshape(len(rows), -1))
        if seen:
            # The mean likeness to the last few of each: a vote that counts how clear it is.
            alike = np.array([[np.mean([v @ past for past in own[-vote:]]) for own in seen] for v in vectors])
            for row, track in zip(*scipy.optimize.linear_sum_assignment(-alike), strict=True):
                number[rows[row]] = track
                seen[track].append(vectors[row])
        for row in np.flatnonzero(number[rows] < 0):
            number[rows[row]] = len(seen)
            seen.append([vectors[row]])
    return number
