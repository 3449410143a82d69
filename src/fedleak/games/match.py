"""The `match` game: did these two updates come from the same person?

One update of a pair comes from a device that the adversary runs on a person's prior data and one is anonymous, or both
are anonymous (Orekondy et al., 2020, section 4.3, eq. 6). Nobody has to be known by name for this: with `seen` the
attack learns from some people only and is asked about others too, down to nobody seen at all (section 6.1.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray
from fedleak.errors import AttackError
from fedleak.games.game import Answers, Asked, OptionGame, Questions
from fedleak.games.identify import anonymous, draw_people, relabel, senders
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Match", "Pairs", "SAME", "draw_pairs"]

SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Questions):
    """Questions about two updates each: `updates` is (questions, 2), and the one option is `same`."""


@dataclass(frozen=True, kw_only=True)
class Match(OptionGame):
    """Ask about pairs of updates, as many of one person as of two."""

    name: ClassVar[str] = "match"
    summary: ClassVar[str] = "Did these two updates come from the same person?"
    metrics: ClassVar[tuple[str, ...]] = ("ap", "auc")

    between: Annotated[
        Literal["prior", "anonymous"],
        Meta(description="one update of each pair is from the adversary's device on prior data, or both are anonymous"),
    ] = "prior"
    pairs: Annotated[
        int, Meta(ge=4, description="at most this many, half of them of the same person, spread evenly over people")
    ] = 4000
    seen: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1,
                description="open world: the share of the participants, without those held out, whom the attack may "
                "learn from; closed world if absent, nobody but those held out if 0",
            ),
        ]
        | None
    ) = None
    held_out: Annotated[
        float, Meta(ge=0, lt=1, description="open world: share of the people who serve only to learn from")
    ] = 1 / 3
    who: Annotated[
        Literal["everyone", "unseen"],
        Meta(description="open world: ask about everyone who is not held out, or only about people never seen"),
    ] = "everyone"

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> Asked:
        """Draw whom the attack learns from, then pairs of the people to be asked about."""
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        learnt, asked = self._people(len(prior.candidates), rng)
        rows = rows[np.isin(sender[rows], asked)]
        partners = self._partners(trace, sender, rows)
        if not any(map(len, partners)):
            raise AttackError(
                f"{trace.folder}: none of the {len(asked)} people asked about has two updates to pair "
                f"(between = '{self.between}'); train more rounds"
            )
        # Swapping within a round keeps the rounds of a pair from giving its answer away.
        first, second, right = draw_pairs(partners, sender[rows], np.asarray(trace.round)[rows], self.pairs, rng)
        if len(first) == 0:
            raise AttackError(
                f"{trace.folder}: no round has updates of two of the {len(asked)} people asked about, so no pair of "
                "different people can be drawn; train more rounds, or select more devices in each (fraction)"
            )
        updates = np.stack([first, rows[second]], axis=1)
        return Asked(
            questions=Pairs(updates=updates, options=(SAME,)),
            answers=Answers(right=right, who=sender[updates], people=tuple(map(str, prior.candidates))),
            prior=prior.take(learnt),
            shadow=relabel(np.asarray(trace.shadow), learnt, len(prior.candidates)),
        )

    def _people(self, people: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Whom the attack learns from, and who is asked about."""
        everyone = np.arange(people, dtype=np.int64)
        if self.seen is None:
            if self.who == "unseen":
                raise AttackError(
                    "match: who = 'unseen', but in the closed world nobody is unseen; set `seen` ([[game]] in the plan)"
                )
            return everyone, everyone
        seen, unseen, held = draw_people(people, self.seen, self.held_out, rng)
        asked = unseen if self.who == "unseen" else np.sort(np.concatenate([seen, unseen]))
        if len(unseen) < 1 or len(asked) < 2 or len(seen) + len(held) < 2:
            raise AttackError(
                f"match, open world: seen = {self.seen:g} and held_out = {self.held_out:g} of {people} people leave "
                f"{len(seen)} seen, {len(unseen)} unseen and {len(held)} held out; needed are one unseen, two to ask "
                "about and two to learn from. Change the shares ([[game]] in the plan), or take more users"
            )
        return np.concatenate([seen, held]), asked

    def _partners(self, trace: Trace, sender: IntArray, rows: IntArray) -> list[IntArray]:
        """For every anonymous update the updates that it can be paired with, all of the same person.

        Two anonymous updates of one device are of different rounds; the earlier one comes first, so no pair is drawn
        in both orders.
        """
        if self.between == "prior":
            shadow = np.asarray(trace.shadow)
            # The prior data of somebody unseen came too late to learn from; its updates carry no name in the view.
            return [np.flatnonzero(shadow == sender[row]) for row in rows]
        number = np.asarray(trace.round)
        return [rows[(sender[rows] == sender[row]) & (number[rows] < number[row])] for row in rows]


def draw_pairs(
    partners: Sequence[IntArray], person: IntArray, group: IntArray, most: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw pairs (first, second) that match, and swap them two by two for pairs that do not.

    From (a, b) of one person and (c, d) of another, with b and d in the same group, come the questions (a, d) and
    (c, b). Everything is in as many right pairs as in wrong ones, and so is every combination of groups: neither half
    of a question says anything about its answer. No pair is drawn twice.

    Args:
        partners: for every second the firsts that match it.
        person: of every second.
        group: of every second; seconds are swapped only within one.
        most: how many questions at most.
        rng: decides the draw; people with the fewest pairs so far come first.

    Returns:
        First, second (as an index into `partners`) and 1 or 0 for every question, in random order.
    """
    left = [list(rng.permutation(firsts)) for firsts in partners]
    free = np.asarray([len(firsts) > 0 for firsts in left], dtype=np.bool_)
    members = {g: np.flatnonzero(group == g) for g in np.unique(group).tolist()}
    count = np.zeros(int(person.max()) + 1 if len(person) else 0)
    alive = list(np.unique(person[free])) if len(person) else []
    drawn: list[tuple[int, int, int]] = []

    def fewest(seconds: IntArray) -> int:
        return int(seconds[np.argmin(count[person[seconds]] + rng.random(len(seconds)))])

    def couple(u: int) -> tuple[int, int] | None:
        for b in rng.permutation(np.flatnonzero(free & (person == u))).tolist():
            others = members[int(group[b])]
            others = others[free[others] & (person[others] != u)]
            if len(others):
                return b, fewest(others)
        return None

    while alive and len(drawn) + 4 <= most:
        u = alive[int(np.argmin(count[alive] + rng.random(len(alive))))]
        found = couple(int(u))
        if found is None:  # what is free only grows less, so nobody has to be tried twice
            alive.remove(u)
            continue
        b, d = found
        a, c = left[b].pop(), left[d].pop()
        drawn += [(a, b, 1), (c, d, 1), (a, d, 0), (c, b, 0)]
        for second in found:
            free[second] = len(left[second]) > 0
            count[person[second]] += 1
    table = np.asarray(drawn, dtype=np.int64).reshape(-1, 3)[rng.permutation(len(drawn))]
    return table[:, 0], table[:, 1], table[:, 2]
