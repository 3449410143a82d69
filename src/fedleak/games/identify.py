"""The `identify` game: who of these users sent this anonymous update?

In the closed world the adversary has prior data of everyone. In the open world (Orekondy et al., 2020, section 6.1.2)
it has none of some users, whose updates should be answered with `unseen`; a third group of users serves only to learn
what a stranger looks like.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, UserId, format_value, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, GameInstance, Headline, OptionGame, Questions
from fedleak.metrics import identification
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.detail import identified
from fedleak.metrics.identification import UNSEEN
from fedleak.metrics.metric import Metric, average_precision
from fedleak.metrics.user_scores import NAMED
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Identify", "UNSEEN", "senders", "anonymous", "relabel", "draw_users"]


@dataclass(frozen=True, kw_only=True)
class Identify(OptionGame):
    """Ask about every update of an anonymous client; the options are all users whose prior data the adversary has."""

    name: ClassVar[str] = "identify"
    summary: ClassVar[str] = "Which of these users sent this update?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("singling out", "linkability")
    metrics: ClassVar[tuple[Metric, ...]] = (
        average_precision(identification.average_precision, per_user=identification.each, each_user=NAMED),
        Metric(
            name="top1",
            title="top-1",
            short="top-1",
            text="The share of updates whose true sender is the attacker's first guess.",
            measure=partial(identification.top, 1),
            per_user=partial(identification.each, k=1),
            column="top-1",
            percent=True,
        ),
        Metric(
            name="top5",
            title="top-5",
            short="top-5",
            text="The share of updates whose true sender is among the attacker's first five guesses.",
            measure=partial(identification.top, 5),
            per_user=partial(identification.each, k=5),
        ),
        Metric(
            name="unseen",
            title="average precision of detecting unseen users",
            short="unseen",
            text="How well updates of users without prior data are distinguished from all others.",
            measure=identification.unseen,
            applies=identification.unseen_asked,
            column="unseen",
        ),
    )
    strongest: ClassVar[str | None] = "reid-strong"

    seen: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=1,
                description="open world: the share of the users, without those held out, that the adversary has "
                "prior data of; closed world if absent",
            ),
        ]
        | None
    ) = None
    held_out: Annotated[
        float, Meta(ge=0, lt=1, description="open world: share of the users used only to learn `unseen`")
    ] = 1 / 3
    labelled: (
        Annotated[int, Meta(ge=1, description="at most this many labelled updates per user, drawn at random")] | None
    ) = None
    labelled_rounds: (
        Annotated[
            tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]],
            Meta(description="the first and the last round with labelled updates; all if absent"),
        ]
        | None
    ) = None

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the seen users, and ask about all users but those held out."""
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        seen, held = np.arange(len(prior.candidates)), np.zeros(0, dtype=np.int64)
        if self.seen is not None:
            seen, held = self._divide(len(prior.candidates), rng)
        shadow = relabel(np.asarray(trace.shadow), np.concatenate([seen, held]), len(prior.candidates))
        if self.labelled_rounds is not None:
            first, last = self.labelled_rounds
            shadow = np.where((trace.round >= first) & (trace.round <= last), shadow, -1)
        if self.labelled is not None:
            shadow = _thin(shadow, self.labelled, rng)
        rows = rows[~np.isin(sender[rows], held)]
        options = tuple(str(prior.candidates[i]) for i in seen)
        # Unseen users have the option after the last candidate.
        place = np.full(len(prior.candidates), len(seen))
        place[seen] = np.arange(len(seen))
        return GameInstance(
            questions=Questions(updates=rows, options=options if self.seen is None else (*options, UNSEEN)),
            answers=Answers(right=place[sender[rows]], who=sender[rows], users=tuple(map(str, prior.candidates))),
            prior=prior.take(np.concatenate([seen, held])),
            shadow=shadow,
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often the sender is identified, and how well unseen users are detected."""
        top, stranger = scores["top1"], scores.get("unseen")
        users = "users with prior data" if stranger else "users"
        more = (
            f" Updates of unseen users are detected with average precision "
            f"{format_value(stranger.value)}; guessing would manage {format_value(stranger.chance)}."
            if stranger
            else ""
        )
        return Headline(
            percent(top.value),
            f"Out of {top.options} {users}, an update's sender is named correctly in {percent(top.value)} of cases; "
            f"guessing would manage {percent(top.chance)}.{more}",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """How identifiable each user is, and the confusion matrix."""
        return identified(played[0])

    def _divide(self, users: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
        assert self.seen is not None
        seen, unseen, held = draw_users(users, self.seen, self.held_out, rng)
        if len(held) < 1 or len(seen) < 2 or len(unseen) < 1:
            raise AttackError(
                f"open world: seen = {self.seen:g} and held_out = {self.held_out:g} of {users} users leave "
                f"{len(seen)} seen, {len(unseen)} unseen and {len(held)} held out; at least two, one and one are "
                "needed. Change the shares ([[game]] in the plan), or take more users"
            )
        return seen, held


def draw_users(
    users: int, seen: float, held_out: float, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Divide users at random into seen, unseen and held out; `seen` is a share of those not held out."""
    held = round(held_out * users)
    known = round(seen * (users - held))
    order = rng.permutation(users)
    return np.sort(order[:known]), np.sort(order[known + held :]), np.sort(order[known : known + held])


def anonymous(trace: Trace) -> IntArray:
    """The rows that anonymous clients sent."""
    rows = np.flatnonzero(np.asarray(trace.shadow) < 0)
    if len(rows) == 0:
        raise AttackError(
            f"{trace.folder}: no anonymous update was recorded, so there are no questions; train more rounds"
        )
    return rows


def senders(trace: Trace, truth: Truth, prior: Prior) -> IntArray:
    """The user whose data each update of a trace was trained on, as an index into the prior's candidates."""
    place = {user: i for i, user in enumerate(prior.candidates)}
    owners = [truth.client_user[client] for client in trace.header.clients]
    strangers = sorted({str(user) for user in owners} - {str(user) for user in place})
    if strangers:
        raise AttackError(
            f"{trace.folder}: the adversary has no prior data of {len(strangers)} clients "
            f"(first: {strangers[0]}); the game draws unseen users from those with prior data"
        )
    absent = sorted({str(user) for user in place} - {str(user) for user in owners})
    if absent:
        raise AttackError(
            f"{trace.folder}: the prior has {len(absent)} users without a client in the federation "
            f"(first: {absent[0]}); remove them from the prior"
        )
    return np.asarray([place[UserId(user)] for user in owners], dtype=np.int64)[np.asarray(trace.client)]


def relabel(shadow: IntArray, kept: IntArray, candidates: int) -> IntArray:
    """Number the labelled updates by the kept candidates; the others are unlabelled to the adversary."""
    place = np.full(candidates + 1, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return place[np.where(shadow < 0, candidates, shadow)]


def _thin(shadow: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    thinned = shadow.copy()
    for candidate in np.unique(shadow[shadow >= 0]):
        rows = rng.permutation(np.flatnonzero(shadow == candidate))
        thinned[rows[most:]] = -1
    return thinned
