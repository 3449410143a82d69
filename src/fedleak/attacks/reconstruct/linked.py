"""Reconstruction from anonymous updates: link first, then draw (Song et al., 2020, section VI)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.features import unit
from fedleak.attacks.link.base import Linker, standardised
from fedleak.attacks.link.cosine import LinkCosine, LinkRepresentativesCosine
from fedleak.attacks.link.siamese import LinkRepresentatives
from fedleak.attacks.reconstruct.mgan_ai import MganPassivePaper
from fedleak.attacks.reconstruct.prior import MganPrior
from fedleak.attacks.reconstruct.victim_context import Scene
from fedleak.attacks.shadow import model_of
from fedleak.core import IntArray, Observation
from fedleak.games.game import Questions
from fedleak.games.reconstruct import ImageQuestions
from fedleak.lazy import scipy
from fedleak.trace.prior import Background, Prior
from fedleak.views.view import View

__all__ = ["MganLinked", "MganLinkedPaper", "tracks"]


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


@dataclass(frozen=True, kw_only=True)
class MganLinkedPaper(MganPassivePaper):
    """`mgan-passive-paper` by a server that sees anonymous updates, as in section VI: the paper's linker comes first.

    A Siamese network, trained on shadow clients, compares representatives, and Algorithm 2 names every update by a
    majority vote. Two updates of a round may get one identity: the update that is asked about is then the one used.
    """

    name: ClassVar[str] = "mgan-linked-paper"
    summary: ClassVar[str] = (
        "Links anonymous updates by their representatives, a Siamese network and a majority vote, then trains a GAN "
        "against that client's models (as in the paper)."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.SIZES
    imitates: ClassVar[bool] = True  # the linker simulates clients

    shadows: Annotated[int, Meta(ge=4, description="shadow clients of the linker")] = 20
    k: Annotated[int, Meta(ge=1, description="how many past rounds of an identity vote (K)")] = 3

    def scene(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> Scene:
        """The run with voted identities."""
        assert isinstance(questions, ImageQuestions)
        linker = LinkRepresentatives(shadows=self.shadows, k=self.k)
        links = linker.identities(
            view, replace(prior, background=Background(examples=questions.auxiliary, shows={})), rng
        )
        for row in questions.updates:
            twins = (view.updates.round == view.updates.round[row]) & (links == links[row])
            twins[row] = False
            links[twins] = links.max() + 1 + np.arange(int(twins.sum()))
        return Scene(view, questions, links)


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
