"""A shuffler between clients and server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedleak.core import Observation
from fedleak.federation.hooks import Defence

__all__ = ["Shuffle"]


@dataclass(frozen=True, kw_only=True)
class Shuffle(Defence):
    """Send updates through a shuffler, which removes sender and order (Bittau et al., 2017), or an anonymity network.

    It changes nothing that a client computes or sends. It removes what the server would otherwise know: which updates
    come from the same client. The trace keeps that for scoring; no view of a shuffled run shows it. The number of
    examples still arrives with an update, where the server weights by it.
    """

    name: ClassVar[str] = "shuffle"
    summary: ClassVar[str] = (
        "Routes updates through a shuffler that removes their senders, so that the server cannot follow a client "
        "across rounds."
    )
    hides: ClassVar[Observation] = Observation.LINKS
    no_epsilon: ClassVar[str] = "it shuffles updates without noise; shuffling amplifies noise but does not replace it"
