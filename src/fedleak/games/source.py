"""The `source` game: which client holds this record? (Hu et al., 2021).

The adversary has a record and wants to know whose it is. Two things tell: the model of a client that trained on this
very record, and how everything that the client sends resembles its user. To tell one from the other, records are asked
about, too, that the same users have and that no client trained on: attributing those takes style alone.

What is asked about is drawn without regard to the answer, and equally many records of every client: how much data a
client has is known to many adversaries, and must not be an answer.
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
from fedleak.games.game import Contract, GameInstance, Headline, Needs, OptionGame, Questions
from fedleak.games.member_records import plain, pools, senders
from fedleak.metrics import source as measures
from fedleak.metrics.attack_result import AttackResult
from fedleak.metrics.detail import identified
from fedleak.metrics.metric import Metric
from fedleak.metrics.source import ATTRIBUTED, NOBODY, TRAINED, UNUSED, SourceAnswers
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Source", "SourceQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuestions(Questions):
    """One question for each record; the options are clients, by the names under which they are selected.

    `updates` holds one update of each of these clients: an adversary that can link updates knows all of them.
    """

    records: Examples

    def __len__(self) -> int:
        return len(self.records)


_METRICS: tuple[Metric, ...] = (
    Metric(
        name="top1",
        title="records attributed to the right client",
        short="top-1",
        text="The share of training records for which the attacker's first guess is the client that trained on them. "
        "Guessing gives 1 / (number of clients).",
        measure=partial(measures.top, 1, TRAINED),
        applies=partial(measures.applies, TRAINED),
        per_user=measures.each,
        each_user=ATTRIBUTED,
        percent=True,
    ),
    Metric(
        name="top3",
        title="records whose client is among the first three guesses",
        short="top-3",
        text="The share of training records whose client is among the attacker's first three guesses.",
        measure=partial(measures.top, 3, TRAINED),
        applies=partial(measures.applies, TRAINED),
        column="top-3",
        percent=True,
    ),
    Metric(
        name="top1-unused",
        title="unused records attributed to their user's client",
        short="top-1, unused",
        text="The same for records of the same users that no client trained on: what the attack knows by style alone. "
        "The difference is what is known because the client trained on the very record.",
        measure=partial(measures.top, 1, UNUSED),
        applies=partial(measures.applies, UNUSED),
        column="top-1, unused",
        percent=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Source(OptionGame):
    """Ask for the client of records that clients trained on, and of others of the same users."""

    name: ClassVar[str] = "source"
    summary: ClassVar[str] = "Which client holds this record?"
    strongest: ClassVar[str | None] = "source-strong"
    metrics: ClassVar[tuple[Metric, ...]] = _METRICS
    criteria: ClassVar[tuple[Criterion, ...]] = ("linkability",)
    needs_prior: ClassVar[bool | None] = False
    needs_members: ClassVar[bool] = True
    needs_outsiders: ClassVar[str] = "its control asks about their records"

    records: Annotated[
        int, Meta(ge=1, description="at most this many records of each client are asked about, of each kind")
    ] = 40

    @property
    def controls(self) -> tuple[str, ...]:
        """Records of people who take no part are no client's, whatever an attack says."""
        return ("decoys",)

    @property
    def note(self) -> str:
        """What the second metric is about."""
        return (
            "Equally many records of every client. Records of the same users that no client trained on are asked "
            "about, too, where some are held out: an attack attributes those by style alone."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How many records are attributed, and how many by style alone."""
        first, unused = scores["top1"], scores.get("top1-unused")
        more = (
            ""
            if unused is None
            else f" Of records of the same users that no client trained on, it is {percent(unused.value)}."
        )
        return Headline(
            percent(first.value),
            f"Out of {first.options} clients, the attack names the one that trained on a record in "
            f"{percent(first.value)} of cases; guessing would manage {percent(first.chance)}.{more}",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """How well each user's training records are attributed, and to whom if not."""
        return identified(measures.part(played[0], TRAINED))

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation that has memorised noisy labels; without a leak, each client trained on a stranger's data."""
        from fedleak.games.traces.members import write_members

        return Contract(
            game=cls(records=16),
            write=lambda folder, seed, leak: write_members(folder, seed, leak=leak, instead="strangers"),
            metric="top1",
            seeds=3,
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the records in question; the adversary keeps only public examples."""
        members = truth.members
        if members is None:
            raise AttackError(
                f"{trace.folder}: this run did not keep the clients' records; train it with a plan that has the game "
                "'source', in another folder (--out)"
            )
        everyone = [str(user) for user in members.used.candidates]
        sent = {str(user): rows for user, rows in senders(trace, truth).items()}
        order = rng.permutation([place for place, user in enumerate(everyone) if user in sent]).tolist()
        if len(order) < 2:
            raise AttackError(f"{trace.folder}: {len(order)} client(s) sent an update; train more rounds")
        part = set(map(str, truth.users))
        strangers = rng.permutation([place for place, user in enumerate(everyone) if user not in part]).tolist()
        found = pools(members)

        def rows_of(place: int, *, used: bool) -> IntArray:
            return np.flatnonzero(found[place][1] == used)

        lacking = [everyone[place] for place in order if not len(rows_of(place, used=True))]
        if lacking:
            raise AttackError(
                f"{trace.folder}: every record of user '{lacking[0]}' has a copy elsewhere, so none is held by one "
                "client alone; leave the user out, or remove copies from the data set"
            )
        parts, right, kind = [], [], []
        for what, places, used in (
            (TRAINED, order, True),
            (UNUSED, order, False),
            (NOBODY, strangers[: len(order)], True),
        ):
            # The same number for every client: how much data one has is no secret, and must not be an answer.
            most = min((len(rows_of(place, used=used)) for place in places), default=0)
            for option, place in enumerate(places):
                drawn = rng.permutation(rows_of(place, used=used))[: min(self.records, most)]
                parts.append(found[place][0].take(drawn))
                right.append(np.full(len(drawn), option))
                kind.append(np.full(len(drawn), what))
        shuffled = rng.permutation(sum(map(len, parts)))
        kinds = np.concatenate(kind)[shuffled]
        if members.decoys:
            kinds = _decoys(kinds, trace)
        answer = np.concatenate(right)[shuffled]
        chosen = np.asarray([rng.choice(sent[everyone[place]]) for place in order], dtype=np.int64)
        client = np.asarray(trace.client)[chosen]
        return GameInstance(
            questions=SourceQuestions(
                updates=chosen,
                options=tuple(trace.header.clients[int(index)] for index in client),
                records=plain(Examples.concat(parts).take(shuffled)),
            ),
            answers=SourceAnswers(
                right=answer, who=answer, users=tuple(everyone[place] for place in order), kind=kinds
            ),
            prior=replace(prior.take(np.zeros(0, dtype=np.int64)), background=prior.background),
            shadow=np.full(len(trace.round), -1, dtype=np.int64),
            everything=True,
        )


def _decoys(kind: IntArray, trace: Trace) -> IntArray:
    """The control: an outsider's records are declared those of a client drawn at random, and nothing else is scored."""
    if not (kind == NOBODY).any():
        raise AttackError(
            f"{trace.folder}: the control 'decoys' asks about records of users who take no part; set outsiders = N in "
            "[population], or remove the control"
        )
    return np.where(kind == NOBODY, TRAINED, NOBODY)
