"""The `link` game: which of these anonymous updates come from one client?

Song et al. (2020, section VI) ask it in two ways, and both are answered from the same claims. Given two updates of
different rounds: one client or two (matching accuracy)? Given one update and all of a later round: which is the same
client's (precision, over a gap of so many rounds)?

What is asked must not answer anything. So every update of the earlier round is asked about together with every update
of the later one: from which pairs are asked nobody learns more than who took part, which is seen anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.errors import AttackError
from fedleak.games.game import Answers, GameInstance, OptionGame
from fedleak.games.match import SAME, Pairs
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Link", "GAPS"]

GAPS = (1, 2, 5, 10, 20)


@dataclass(frozen=True, kw_only=True)
class Link(OptionGame):
    """Ask about all pairs of updates between rounds that lie 1, 2, 5, 10 and 20 apart, as far as the run goes.

    A claim above 0 says that both come from one client; the higher of two claims is the likelier one. The adversary has
    no data of anybody, and an auxiliary set of nobody's (the prior's background).
    """

    name: ClassVar[str] = "link"
    summary: ClassVar[str] = "Which of these anonymous updates come from the same client?"
    metrics: ClassVar[tuple[str, ...]] = ("gap1", "gap2", "gap5", "gap10", "gap20", "matched", "auc")
    needs_prior: ClassVar[bool] = False

    starts: Annotated[
        int, Meta(ge=1, description="from how many rounds, evenly over the run, updates are to be found again later")
    ] = 6

    @property
    def controls(self) -> tuple[str, ...]:
        """Clients that repeat their data can be linked whoever they belong to; with fresh data they cannot."""
        return ("fresh-data",)

    @property
    def note(self) -> str:
        """What must be said beside the question: why this one can be answered where nothing is personal."""
        return (
            "Two updates of one client come from the same examples, so they resemble each other whoever it belongs to: "
            "above chance on the IID control means that updates can be linked, not that they say something about a "
            "user."
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Ask about every pair between the rounds that are compared."""
        number, client = np.asarray(trace.round), np.asarray(trace.client)
        place = {user: i for i, user in enumerate(truth.users)}
        owner = np.asarray([place[truth.client_user[name]] for name in trace.header.clients], dtype=np.int64)
        if len(np.unique(client)) < 2:
            raise AttackError(
                f"{trace.folder}: {len(np.unique(client))} client(s) sent anything, and one alone is linked by being "
                "alone; take at least two clients"
            )
        pairs, gap, gallery, searches = [], [], [], 0
        for first, later, apart in self._rounds(trace.rounds):
            earlier, after = np.flatnonzero(number == first), np.flatnonzero(number == later)
            # All of them, found again or not: to leave some out would tell who did not come back.
            grid = np.stack(np.meshgrid(earlier, after, indexing="ij"), axis=-1).reshape(-1, 2)
            pairs.append(grid)
            gap.append(np.full(len(grid), apart))
            gallery.append(searches + np.repeat(np.arange(len(earlier)), len(after)))
            searches += len(earlier)
        updates = np.concatenate(pairs).astype(np.int64)
        right = (client[updates[:, 0]] == client[updates[:, 1]]).astype(np.int64)
        if not right.any():
            raise AttackError(
                f"{trace.folder}: no client took part twice in the rounds that are compared, so there is nothing to "
                "link; select more clients in each round (fraction), or compare more rounds (starts)"
            )
        order = rng.permutation(len(updates))
        return GameInstance(
            questions=Pairs(updates=updates[order], options=(SAME,)),
            answers=Answers(
                right=right[order],
                who=owner[client[updates]][order],
                users=tuple(map(str, truth.users)),
                gallery=np.stack([np.concatenate(gap), np.concatenate(gallery)], axis=1)[order],
            ),
            prior=replace(prior.take(np.zeros(0, dtype=np.int64)), background=prior.background),
            shadow=np.full(len(number), -1, dtype=np.int64),
            everything=True,
        )

    def _rounds(self, last: int) -> list[tuple[int, int, int]]:
        """Which rounds are compared: (earlier, later, gap)."""
        gaps = [gap for gap in GAPS if gap < last]
        if not gaps:
            raise AttackError("updates of one round cannot be linked to those of another: train more than one round")
        starts = np.unique(np.linspace(1, last - gaps[-1], self.starts).round().astype(np.int64)).tolist()
        return [(start, start + gap, gap) for start in starts for gap in gaps]
