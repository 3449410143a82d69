"""The `membership` game: was this record used for training, or did this user take part?

Of records, non-members are by default records of the same user that no client trained on: against other users' records
an attack is helped by the user's style, which is in the model whether or not this record was. Both comparisons are
made, under names of their own.

What is asked about is drawn without regard to the answer. A client is asked about together with records of its user
and, where there are outsiders, with as many records of one outsider: which of the two is the user is not to be told
from the questions. One record is drawn of what belongs together (a document, an album, a day), because these are on
the same side of every split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import FloatArray, IntArray, percent
from fedleak.errors import AttackError
from fedleak.games.game import Contract, GameInstance, Headline, Needs, OptionGame, Questions
from fedleak.games.member_records import plain, pools, senders
from fedleak.games.membership_metrics import METRICS, curves, worst
from fedleak.metrics import membership as measures
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.membership import HELD_OUT, MEMBER, OUTSIDE, OWN, UNSCORED, MembershipAnswers
from fedleak.metrics.metric import Metric
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Membership", "MembershipQuestions", "MEMBER_OPTION"]

MEMBER_OPTION = "member"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipQuestions(Questions):
    """One question for each record, or for each user with some records.

    Of records, `updates` holds one update of the client in question; an adversary that can link updates knows all
    updates of that client.
    """

    records: Examples
    question: IntArray  # (records,): the question that each record belongs to, in increasing order
    asked: int

    def __len__(self) -> int:
        return self.asked

    def mean(self, scores: npt.NDArray[np.floating]) -> FloatArray:
        """Scores of records as predictions: the mean over the records of each question."""
        total = np.bincount(self.question, weights=scores, minlength=self.asked)
        count = np.bincount(self.question, minlength=self.asked)
        return np.asarray(total / np.maximum(count, 1), dtype=np.float32)[:, None]


@dataclass(frozen=True, kw_only=True)
class Membership(OptionGame):
    """Ask whether records were trained on, or whether users took part."""

    name: ClassVar[str] = "membership"
    summary: ClassVar[str] = "Was this record, or this user, in the training data?"
    strongest: ClassVar[str | None] = "membership-strong"
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    criteria: ClassVar[tuple[Criterion, ...]] = ("membership",)
    needs_prior: ClassVar[bool | None] = False
    needs_members: ClassVar[bool] = True
    multiples: ClassVar[bool] = False

    unit: Annotated[
        Literal["record", "user"],
        Meta(
            description="record: was this record trained on? Non-members are held-out records of the same users, and "
            "in a second comparison those of outsiders; user: did this user take part? Non-members are outsiders"
        ),
    ] = "record"
    records: Annotated[
        int, Meta(ge=1, description="at most this many records of each user are asked about, or given to the adversary")
    ] = 100
    known: Annotated[
        Literal["trained", "held-out"],
        Meta(
            description="users: the records of a user that the adversary has. trained: those that the client trained "
            "on if the user took part; held-out: others of the same user"
        ),
    ] = "trained"

    @property
    def controls(self) -> tuple[str, ...]:
        """Records that nobody trained on cannot be found, nor can any in a model of other people's records.

        The first scores the same predictions, so it sees what an attack does; the second goes through everything that
        divides members from non-members, so it sees what the set-up manufactures.
        """
        return ("decoys", "other-federation")

    @property
    def note(self) -> str:
        """What a non-member is."""
        if self.unit == "user":
            return "Non-members are users who take no part, drawn and split in the same way as those who do."
        return (
            "Non-members are records of the same users that no client trained on. The comparison with other users' "
            "records measures style, too, and is reported under its own name."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often a member is told from a non-member, and how many are found at few false alarms."""
        area = scores.get("auc")
        if area is None:
            return None
        what = "a record that was trained on and another record of the same user"
        if self.unit == "user":
            what = "a user who took part and one who did not"
        steep = scores.get("tpr1")
        more = (
            f" Allowed to be wrong about 1% of non-members, it finds {percent(steep.value)} of members."
            if steep is not None
            else ""
        )
        return Headline(
            percent(area.value),
            f"Given {what}, the attack tells which is which in {percent(area.value)} of cases; guessing would manage "
            f"{percent(area.chance)}.{more}",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """The ROC curve on logarithmic axes, and how many of the most exposed records are members."""
        if measures.applies(OWN, played) is not True:
            return DetailParts()
        return DetailParts(figures=[curves(played, self.unit)], tables=[worst(played, self.unit)])

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation that has memorised noisy labels, asked about what it trained on or about other records."""
        from fedleak.games.traces.members import write_members

        return Contract(
            game=cls(records=40),
            write=lambda folder, seed, leak: write_members(folder, seed, leak=leak),
            metric="auc",
            seeds=3,
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the records in question; the adversary keeps only public examples."""
        if truth.members is None:
            raise AttackError(
                f"{trace.folder}: this run did not keep the clients' records; train it with a plan that has the game "
                "'membership', in another folder (--out)"
            )
        users = truth.members.used.candidates
        inside = np.isin(np.asarray(users), np.asarray(truth.users))
        asked = (
            self._users(trace, truth, inside, rng) if self.unit == "user" else self._records(trace, truth, inside, rng)
        )
        questions, answers = asked
        if truth.members.decoys:
            answers = _decoys(answers, rng)
        return GameInstance(
            questions=questions,
            answers=answers,
            prior=replace(prior.take(np.zeros(0, dtype=np.int64)), background=prior.background),
            shadow=np.full(len(trace.round), -1, dtype=np.int64),
            everything=True,
        )

    def _records(
        self, trace: Trace, truth: Truth, inside: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[MembershipQuestions, MembershipAnswers]:
        members = truth.members
        assert members is not None
        users = members.used.candidates
        sent = senders(trace, truth)
        present = [i for i in np.flatnonzero(inside).tolist() if users[i] in sent]
        outside = np.flatnonzero(~inside).tolist()
        found = pools(members)
        lacking = [users[i] for i in present if not len(members.held_out.examples[i])]
        if lacking or len(present) < 1:
            raise AttackError(
                f"{trace.folder}: "
                + (
                    f"no record of user '{lacking[0]}' was held out, so there is nothing to compare the user's records "
                    "with; set held_out = 0.5 in [population], or leave out users with few records (min_examples)"
                    if lacking
                    else "no client sent an update; train more rounds"
                )
            )
        pairs = min(len(present), len(outside))
        order, strangers = rng.permutation(present).tolist(), rng.permutation(outside).tolist()
        parts, rows, who, kind, paired = [], [], [], [], []
        for place, user in enumerate(order):
            row = int(rng.choice(sent[users[user]]))
            for owner in (user, strangers[place]) if place < pairs else (user,):
                pool, used = found[owner]
                drawn = rng.permutation(len(pool))[: self.records]
                parts.append(pool.take(drawn))
                what = np.where(used[drawn], MEMBER, HELD_OUT) if owner == user else np.full(len(drawn), OUTSIDE)
                kind.append(what)
                rows.append(np.full(len(drawn), row))
                who.append(np.full(len(drawn), owner))
                paired.append(np.full(len(drawn), place < pairs))
        shuffled = rng.permutation(sum(map(len, parts)))
        kinds = np.concatenate(kind)[shuffled]
        if not ((kinds == MEMBER).any() and (kinds == HELD_OUT).any()):
            raise AttackError(
                f"{trace.folder}: of {len(kinds)} records in question all or none were trained on; hold out about half "
                "(held_out in [population]), or ask about more records ([[game]] records)"
            )
        return (
            MembershipQuestions(
                updates=np.concatenate(rows)[shuffled],
                options=(MEMBER_OPTION,),
                records=plain(Examples.concat(parts).take(shuffled)),
                question=np.arange(len(shuffled)),
                asked=len(shuffled),
            ),
            MembershipAnswers(
                right=(kinds == MEMBER).astype(np.int64),
                who=np.concatenate(who)[shuffled],
                users=tuple(map(str, users)),
                kind=kinds.astype(np.int64),
                paired=np.concatenate(paired)[shuffled],
            ),
        )

    def _users(
        self, trace: Trace, truth: Truth, inside: npt.NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[MembershipQuestions, MembershipAnswers]:
        members = truth.members
        assert members is not None
        users, sent = members.used.candidates, senders(trace, truth)
        able = [i for i in range(len(users)) if not inside[i] or users[i] in sent]
        data = (members.used if self.known == "trained" else members.held_out).examples
        if self.known == "held-out" and any(not len(data[i]) for i in able):
            raise AttackError(
                f"{trace.folder}: known = 'held-out', but of some users no record was held out; set held_out = 0.5 in "
                "[population]"
            )
        if inside[able].all() or not inside[able].any():
            raise AttackError(
                f"{trace.folder}: {int(inside[able].sum())} of {len(able)} users took part, so there is nobody to tell "
                "apart; draw users who do not take part with outsiders = N in [population]"
            )
        order = rng.permutation(able)
        # The same number for everybody: how many records a user has is none of the adversary's business.
        size = min(self.records, *(len(data[i]) for i in order))
        parts = [data[i].take(rng.permutation(len(data[i]))[:size]) for i in order]
        right = inside[order].astype(np.int64)
        return (
            MembershipQuestions(
                updates=np.zeros(0, dtype=np.int64),
                options=(MEMBER_OPTION,),
                records=plain(Examples.concat(parts)),
                question=np.repeat(np.arange(len(order)), size),
                asked=len(order),
            ),
            MembershipAnswers(
                right=right,
                who=np.asarray(order, dtype=np.int64),
                users=tuple(map(str, users)),
                kind=np.where(right == 1, MEMBER, HELD_OUT),
                paired=np.zeros(len(order), dtype=np.bool_),
            ),
        )


def _decoys(answers: MembershipAnswers, rng: np.random.Generator) -> MembershipAnswers:
    """The control: a random half of what nobody trained on is declared to be members, and nothing else is scored."""
    nobody = np.flatnonzero(answers.kind == HELD_OUT)
    kind = np.full(len(answers.kind), UNSCORED, dtype=np.int64)
    kind[nobody] = np.where(rng.permutation(len(nobody)) % 2 == 0, MEMBER, HELD_OUT)
    return replace(answers, kind=kind, right=(kind == MEMBER).astype(np.int64))
