"""The `match` game: did these two updates come from the same user?

One update of a pair comes from a shadow client on a user's prior data and one is anonymous, or both are anonymous
(Orekondy et al., 2020, section 4.3, eq. 6). This works without prior data of the users in question: with `seen` the
attack learns from only some users and is tested on others too, down to no seen user at all (section 6.1.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, Observation, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, Contract, GameInstance, Headline, Needs, OptionGame, Questions
from fedleak.games.identify import anonymous, draw_users, relabel, senders
from fedleak.games.pairs import Drawn, behind_clients, between_rounds, between_sides
from fedleak.metrics.metric import YES_NO_METRICS, Metric
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Match", "Pairs", "SAME"]

SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Questions):
    """Questions about two updates each: `updates` is (questions, 2), and the one option is `same`."""


@dataclass(frozen=True, kw_only=True)
class Match(OptionGame):
    """Ask about all pairs of drawn updates; of the pairs that are scored, half are from one user."""

    name: ClassVar[str] = "match"
    summary: ClassVar[str] = "Did these two updates come from the same user?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("linkability",)
    strongest: ClassVar[str | None] = "match-strong"
    metrics: ClassVar[tuple[Metric, ...]] = YES_NO_METRICS

    between: Annotated[
        Literal["prior", "anonymous"],
        Meta(description="one update of each pair is from a shadow client on prior data, or both are anonymous"),
    ] = "prior"
    pairs: Annotated[
        int,
        Meta(
            ge=4,
            description="at most this many are asked about: all pairs of some updates; those that are scored, half of "
            "them of the same user, are not known to the attack",
        ),
    ] = 40_000
    seen: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1,
                description="open world: the share of the users, without those held out, that the attack may "
                "learn from; closed world if absent, only those held out if 0",
            ),
        ]
        | None
    ) = None
    held_out: Annotated[
        float, Meta(ge=0, lt=1, description="open world: share of the users used only for training the attack")
    ] = 1 / 3
    who: Annotated[
        Literal["everyone", "unseen"],
        Meta(description="open world: ask about all users not held out, or only about unseen users"),
    ] = "everyone"

    @property
    def controls(self) -> tuple[str, ...]:
        """Two updates of one client come from the same examples, unless it has fresh data every round."""
        return ("iid",) if self.between == "prior" else ("fresh-data",)

    @property
    def note(self) -> str:
        """A note on the question: why updates can be matched even where no data is user-specific."""
        if self.between == "prior":
            return ""
        return (
            "Two updates of one client come from the same examples, so they resemble each other whoever the user is. "
            "Above chance on the IID control means that updates can be linked, not that they reveal something about "
            "a user."
        )

    @property
    def behind_question(self) -> str:
        """Prior data is of one user and an update of a whole client, so only between the two can be asked."""
        if self.between == "anonymous":
            return ""
        return (
            "Does the client that sent this update hold this user's data? Users of one client may resemble each "
            "other: above chance means that the client of a user is found, be it by what all its users share. They "
            "share its updates too, so clients, not users, are resampled and permuted."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often a pair of one user is distinguished from a pair of two."""
        area = scores["auc"]
        if area.clients is not None:
            return Headline(
                percent(area.value),
                f"Given an update, a user whose data its client holds and one whose data it does not ({area.users} "
                f"users of {area.clients} clients), the attack tells which is which in {percent(area.value)} of cases; "
                f"guessing would manage {percent(area.chance)}.",
            )
        return Headline(
            percent(area.value),
            "Given two updates of one user and two of different users, the attack tells which is which in "
            f"{percent(area.value)} of cases; guessing would manage {percent(area.chance)}.",
        )

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """Twice as many federations for attacks that train: pairs of twelve users say little."""
        held = super().contract(attack)
        return replace(held, seeds=4) if Observation.SNAPSHOTS in attack.needs else held

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the users that the attack learns from, then pairs of the users in the questions."""
        if truth.homes:
            return self._ask_behind(trace, truth, prior, rng)
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        learnt, asked = self._users(len(prior.candidates), rng)
        rows = rows[np.isin(sender[rows], asked)]
        drawn = self._pairs(trace, sender, rows, rng)
        if len(drawn.scored) == 0:
            raise AttackError(
                f"{trace.folder}: no pairs can be drawn of the {len(asked)} users in the questions (between = "
                f"'{self.between}'), because fewer than two of them sent enough updates"
                + ("" if self.between == "prior" else " that are in one round")
                + "; train more rounds, select more clients in each (fraction), or ask about more pairs"
            )
        updates = np.stack([drawn.first, drawn.second], axis=1)
        return GameInstance(
            questions=Pairs(updates=updates, options=(SAME,)),
            answers=Answers(
                right=drawn.right,
                who=sender[updates],
                users=tuple(map(str, prior.candidates)),
                scored=drawn.scored,
                cells=drawn.cells,
            ),
            prior=prior.take(learnt),
            shadow=relabel(np.asarray(trace.shadow), learnt, len(prior.candidates)),
        )

    def _ask_behind(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Pairs of a user's shadow update and an update of a client with many users."""
        names = tuple(sorted(set(truth.silos.values())))
        home = np.asarray([names.index(truth.homes[user]) for user in prior.candidates], dtype=np.int64)
        rows, shadow = anonymous(trace), np.asarray(trace.shadow, dtype=np.int64)
        senders = [truth.silos.get(client) for client in trace.header.clients]
        unknown = [
            client
            for client, silo, own in zip(trace.header.clients, senders, trace.header.shadow, strict=True)
            if silo is None and own < 0
        ]
        if unknown:
            raise AttackError(f"{trace.folder}: the truth does not say whose data client '{unknown[0]}' holds")
        sender = np.asarray([-1 if silo is None else names.index(silo) for silo in senders])[np.asarray(trace.client)]
        learnt, asked = self._users(len(prior.candidates), rng)
        drawn = behind_clients(
            [np.flatnonzero(shadow == user) if user in asked else shadow[:0] for user in range(len(home))],
            home,
            [rows[sender[rows] == silo] for silo in range(len(names))],
            self.pairs,
            rng,
        )
        if len(drawn.scored) == 0:
            raise AttackError(
                f"{trace.folder}: no pairs can be drawn of the {len(asked)} users in the questions, because fewer "
                "than two clients sent updates and hold data of users with prior data; record more rounds, or "
                "give prior data of more users"
            )
        user = shadow[drawn.first]
        # In random order: users of one client may follow each other in the prior.
        learnt = rng.permutation(learnt)
        return GameInstance(
            questions=Pairs(updates=np.stack([drawn.first, drawn.second], axis=1), options=(SAME,)),
            answers=Answers(
                right=drawn.right,
                who=np.stack([home[user], sender[drawn.second]], axis=1),
                users=names,
                scored=drawn.scored,
                cells=drawn.cells,
                behind=user,
            ),
            prior=prior.take(learnt),
            shadow=relabel(shadow, learnt, len(prior.candidates)),
        )

    def _users(self, users: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """The users that the attack learns from, and the users in the questions."""
        everyone = np.arange(users, dtype=np.int64)
        if self.seen is None:
            if self.who == "unseen":
                raise AttackError(
                    "match: who = 'unseen', but the closed world has no unseen users; set `seen` ([[game]] in the plan)"
                )
            return everyone, everyone
        seen, unseen, held = draw_users(users, self.seen, self.held_out, rng)
        asked = unseen if self.who == "unseen" else np.sort(np.concatenate([seen, unseen]))
        if len(unseen) < 1 or len(asked) < 2 or len(seen) + len(held) < 2:
            raise AttackError(
                f"match, open world: seen = {self.seen:g} and held_out = {self.held_out:g} of {users} users leave "
                f"{len(seen)} seen, {len(unseen)} unseen and {len(held)} held out; needed: one unseen, two asked "
                "about and two to learn from. Change the shares ([[game]] in the plan), or take more users"
            )
        return np.concatenate([seen, held]), asked

    def _pairs(self, trace: Trace, sender: IntArray, rows: IntArray, rng: np.random.Generator) -> Drawn:
        """Pairs of rows; the first is of a shadow client or, between anonymous updates, the earlier."""
        if self.between == "anonymous":
            return between_rounds(rows, sender[rows], np.asarray(trace.round)[rows], self.pairs, rng)
        # The attack does not learn from unseen users; their shadow updates are unlabelled in the view.
        shadow = np.asarray(trace.shadow)
        users = range(int(sender.max()) + 1)
        return between_sides(
            [np.flatnonzero(shadow == user) for user in users],
            [rows[sender[rows] == user] for user in users],
            self.pairs,
            rng,
        )
