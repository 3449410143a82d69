"""Clients that skip rounds or leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.federation.hooks import Defence

__all__ = ["DynamicParticipation"]


@dataclass(frozen=True, kw_only=True)
class DynamicParticipation(Defence):
    """Let clients stay out of rounds, and leave for good after some (Song et al., 2020, section VI, 3).

    Attacks that follow a client from round to round then have fewer rounds to follow it through; so has the training.
    """

    name: ClassVar[str] = "dynamic-participation"
    summary: ClassVar[str] = (
        "Lets clients skip some of the rounds they are selected for, or leave for good after a few."
    )
    no_epsilon: ClassVar[str] = "updates in the remaining rounds are sent without noise"

    share: Annotated[
        float, Meta(gt=0, le=1, description="probability with which a client that is selected takes part in a round")
    ] = 1.0
    at_most: (
        Annotated[int, Meta(ge=1, description="rounds after which a client never takes part again; no bound if absent")]
        | None
    ) = None

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        """One draw for each client that was asked, whether or not it has left."""
        willing = [client for client in selected if rng.random() < self.share]
        if self.at_most is None:
            return willing
        limit = self.at_most
        return [client for client in willing if sum(client in round_ for round_ in past) < limit]

    def most_rounds(self, rounds: int) -> int:
        """The bound, if there is one."""
        return rounds if self.at_most is None else min(rounds, self.at_most)
