"""A shuffler between clients and server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedleak.core import Observation
from fedleak.federation.hooks import Defence

__all__ = ["Shuffle"]


@dataclass(frozen=True, kw_only=True)
class Shuffle(Defence):
    """Send updates through somebody who takes names and order away (Bittau et al., 2017; an anonymity network does).

    It changes nothing that a client computes or sends. It takes away what the server would know besides: which
    updates come from one client. The trace keeps that for marking answers; no view of a shuffled run shows it. How many
    examples an update stands for still arrives with it, where the server weighs by that.
    """

    name: ClassVar[str] = "shuffle"
    summary: ClassVar[str] = (
        "Routes updates through a shuffler that removes their senders, so that the server cannot follow a client "
        "across rounds."
    )
    hides: ClassVar[Observation] = Observation.LINKS
    no_epsilon: ClassVar[str] = "it mixes updates that carry no noise; mixing strengthens noise, and replaces none"
