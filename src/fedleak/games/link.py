"""The `link` game: which of these anonymous updates come from one client?

Song et al. (2020, section VI) ask it in two ways, both scored from the same predictions. Given two updates of different
rounds: one client or two (matching accuracy)? Given one update and all of a later round: which is from the same client
(precision, over a gap of some rounds)?

The questions must not reveal the answers. So every update of the earlier round is paired with every update of the later
one: the set of pairs reveals only who took part, which the adversary sees anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, Contract, GameInstance, Headline, Needs, OptionGame
from fedleak.games.match import SAME, Pairs
from fedleak.metrics import binary, linking
from fedleak.metrics.metric import Metric, auc
from fedleak.metrics.user_scores import FOUND_AGAIN
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import Figure, Series
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Link", "GAPS"]

GAPS = (1, 2, 5, 10, 20)


def _gap(gap: int) -> Metric:
    later = "the next round" if gap == 1 else f"the round {gap} later"
    return Metric(
        name=f"gap{gap}",
        title=f"found again {'in the next round' if gap == 1 else f'{gap} rounds later'}",
        short=f"gap {gap}",
        text=f"The share of updates for which the attacker's first guess among all updates of {later} is the one that "
        "the same client sent.",
        measure=partial(linking.found_again, gap),
        applies=partial(linking.asked, gap),
        column="gap 20" if gap == 20 else "",
        each_user=FOUND_AGAIN if gap == 1 else None,
    )


@dataclass(frozen=True, kw_only=True)
class Link(OptionGame):
    """Ask about all pairs of updates between rounds that are 1, 2, 5, 10 and 20 apart, as far as the run goes.

    A prediction above 0 means the same client; higher predictions are more confident. The adversary has no data of the
    users, only an auxiliary set of other users (the prior's background).
    """

    name: ClassVar[str] = "link"
    summary: ClassVar[str] = "Which of these anonymous updates come from the same client?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("linkability",)
    strongest: ClassVar[str | None] = "link-cosine"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *(_gap(gap) for gap in GAPS),
        Metric(
            name="matched",
            title="matching accuracy",
            short="matched",
            text="How often the attack decides correctly whether two updates of different rounds come from one client, "
            "with a threshold that it fixed in advance; pairs of one client and of two weigh the same. Guessing gives "
            "0.5.",
            measure=linking.matched,
            column="matched",
        ),
        auc(binary.auc),
    )
    needs_prior: ClassVar[bool | None] = False
    hides_prior: ClassVar[bool] = True
    needs_owners: ClassVar[bool] = False

    starts: Annotated[
        int,
        Meta(ge=1, description="number of rounds, evenly over the run, whose updates are to be linked to later"),
    ] = 6

    @property
    def controls(self) -> tuple[str, ...]:
        """Clients that reuse their data can be linked whoever the user is; with fresh data they cannot."""
        return ("fresh-data",)

    @property
    def note(self) -> str:
        """A note on the question: why updates can be linked even where no data is user-specific."""
        return (
            "Two updates of one client come from the same examples, so they resemble each other whoever the user is. "
            "Above chance on the IID control means that updates can be linked, not that they reveal something about "
            "a user."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often an update is found again in the next round, or after the smallest gap over which clients return."""
        gap = next((gap for gap in GAPS if f"gap{gap}" in scores), None)
        if gap is None:
            return None
        again, later = scores[f"gap{gap}"], "the next round" if gap == 1 else f"the round {gap} later"
        return Headline(
            percent(again.value),
            f"Out of all updates of {later}, the one that the same client sent is picked in "
            f"{percent(again.value)} of cases; guessing would manage {percent(again.chance)}.",
        )

    def figures(self, scores: Sequence[Score]) -> list[tuple[Figure, str]]:
        """How far apart two rounds may be for updates still to be linked (Song et al., 2020, Figure 6)."""
        series: list[Series] = []
        chances: dict[int, float] = {}
        for attack in dict.fromkeys(score.attack for score in scores):
            mine = {score.metric: score for score in scores if score.attack == attack}
            found = [(gap, mine[f"gap{gap}"]) for gap in GAPS if f"gap{gap}" in mine]
            chances |= {gap: score.chance for gap, score in found}
            series.append(
                Series(
                    name=attack,
                    x=[float(gap) for gap, _ in found],
                    y=[score.value for _, score in found],
                    low=[score.low for _, score in found],
                    high=[score.high for _, score in found],
                )
            )
        chance = Series(name="chance", x=[float(gap) for gap in chances], y=list(chances.values()), reference=True)
        figure = Figure(
            kind="lines",
            title="Updates found again in a later round",
            x_label="rounds between the two updates",
            y_label="share of updates found again",
            series=[*series, chance],
            log_x=True,
        )
        caption = "Anonymous updates, found again among all updates of a later round, with no defence. Dashed: chance."
        return [(figure, caption)]

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation of clients with few classes each."""
        from fedleak.games.traces.clients import write_clients

        return Contract(
            game=cls(), write=lambda folder, seed, leak: write_clients(folder, seed, leak=leak), metric="gap1"
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Ask about every pair between the compared rounds."""
        number, client = np.asarray(trace.round), np.asarray(trace.client)
        place = {user: i for i, user in enumerate(truth.users)}
        owner = np.asarray([place[truth.client_user[name]] for name in trace.header.clients], dtype=np.int64)
        real = np.asarray(trace.shadow) < 0
        if len(np.unique(client[real])) < 2:
            raise AttackError(
                f"{trace.folder}: {len(np.unique(client[real]))} client(s) sent an update, but linking needs at "
                "least two clients; take more users"
            )
        pairs, gap, gallery, searches = [], [], [], 0
        for first, later, apart in self._rounds(trace.rounds, np.unique(number[real])):
            earlier, after = np.flatnonzero(real & (number == first)), np.flatnonzero(real & (number == later))
            # All of them, whether they recur or not: omitting some would reveal which clients did not return.
            grid = np.stack(np.meshgrid(earlier, after, indexing="ij"), axis=-1).reshape(-1, 2)
            pairs.append(grid)
            gap.append(np.full(len(grid), apart))
            gallery.append(searches + np.repeat(np.arange(len(earlier)), len(after)))
            searches += len(earlier)
        updates = np.concatenate(pairs).astype(np.int64)
        right = (client[updates[:, 0]] == client[updates[:, 1]]).astype(np.int64)
        if not right.any():
            raise AttackError(
                f"{trace.folder}: no client took part twice in the compared rounds, so there is nothing to "
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
            hidden=np.flatnonzero(np.asarray(trace.shadow) >= 0),
        )

    def _rounds(self, last: int, present: IntArray | None = None) -> list[tuple[int, int, int]]:
        """The compared rounds: (earlier, later, gap); `present` are the rounds with updates, all if absent."""
        gaps = [gap for gap in GAPS if gap < last]
        if not gaps:
            raise AttackError("linking needs updates of several rounds: train more than one round")
        if present is not None and len(present) < last:  # a recorder left rounds out
            later = {gap: np.intersect1d(present, present - gap) for gap in gaps}
            chosen = {gap: rounds[_spread(len(rounds), self.starts)].tolist() for gap, rounds in later.items()}
            found = [(start, start + gap, gap) for gap, starts in chosen.items() for start in starts]
            if not found:
                raise AttackError(
                    f"only {len(present)} of {last} rounds were recorded with updates, and no two of them are "
                    f"{', '.join(map(str, gaps))} rounds apart; record more rounds (every = 1)"
                )
            return found
        starts = np.unique(np.linspace(1, last - gaps[-1], self.starts).round().astype(np.int64)).tolist()
        return [(start, start + gap, gap) for start in starts for gap in gaps]


def _spread(count: int, most: int) -> IntArray:
    """At most so many of the first whole numbers, evenly spread."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64)) if count else np.zeros(0, np.int64)
