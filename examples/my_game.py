"""A game of your own, with an attack on it, in one file: did this user take part in this round?

A game defines everything about itself: questions, metrics, and the text, tables and figures of the report. The contract
is inherited: the synthetic users of `OptionGame.contract` take part in some rounds and not in others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import (
    YES_NO_METRICS,
    Answers,
    AttackContext,
    AttackResult,
    Capability,
    Criterion,
    DetailParts,
    GameInstance,
    Headline,
    IntArray,
    Metric,
    Observation,
    OptionGame,
    Predictions,
    Prior,
    Questions,
    Score,
    Table,
    Task,
    Trace,
    Truth,
    View,
)

__all__ = ["NearestUpdate", "TookPart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence(Questions):
    """One question for each pair of a round and a user; the one option is `took part`."""

    round: IntArray
    candidate: IntArray  # index into the prior's candidates

    def __len__(self) -> int:
        return len(self.round)


@dataclass(frozen=True, kw_only=True)
class TookPart(OptionGame):
    """Ask about random rounds and users; which pairs are asked about does not depend on the answers."""

    name: ClassVar[str] = "took-part"
    summary: ClassVar[str] = "Did this user take part in this round?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("membership",)
    metrics: ClassVar[tuple[Metric, ...]] = YES_NO_METRICS

    pairs: Annotated[int, Meta(ge=4, description="at most this many pairs of a round and a user")] = 400

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the pairs; the adversary has the prior data of everybody, and all updates without names."""
        place = {user: i for i, user in enumerate(prior.candidates)}
        user = np.array([place[truth.client_user[client]] for client in trace.header.clients])[trace.client]
        private = np.asarray(trace.shadow) < 0  # not a client of the adversary's own
        present = np.zeros((trace.rounds + 1, len(place)), dtype=np.int64)
        present[np.asarray(trace.round)[private], user[private]] = 1
        number, candidate = rng.permutation(np.argwhere(present[1:] >= 0))[: self.pairs].T
        return GameInstance(
            questions=Presence(
                updates=np.zeros(0, dtype=np.int64), options=("took part",), round=number + 1, candidate=candidate
            ),
            answers=Answers(
                right=present[number + 1, candidate], who=candidate, users=tuple(map(str, prior.candidates))
            ),
            prior=prior,
            shadow=np.asarray(trace.shadow),
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """One number and one sentence for people who never saw an AUC."""
        area = scores["auc"]
        return Headline(
            f"{area.value:.0%}",
            "Given a round in which a user took part and one in which they did not, the attack tells which is which in "
            f"{area.value:.0%} of cases; guessing would manage {area.chance:.0%}.",
        )

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """The users whose presence shows most and least, as a table of the report."""
        one = played[0]
        sure = {
            name: one.claims[one.about[:, 0] == i, 0] @ (2 * one.right[one.about[:, 0] == i] - 1)
            for i, name in enumerate(one.users)
        }
        order = sorted(sure, key=lambda name: -sure[name])
        caption = "How far predictions lie on the right side, summed over all questions about a user."
        return DetailParts(
            tables=[Table(caption=caption, columns=["user", "sum"], rows=[[n, float(sure[n])] for n in order])]
        )


@dataclass(frozen=True, kw_only=True)
class NearestUpdate:
    """Compare the updates of a round with the average labelled update of the user (cosine)."""

    name: ClassVar[str] = "took-part-cosine"
    summary: ClassVar[str] = "Looks for the update of the round that is most like the user's labelled updates (cosine)."
    game: ClassVar[str] = "took-part"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """The highest cosine with any anonymous update of the round."""
        assert isinstance(questions, Presence)
        rows = np.asarray(view.updates.layer(view.layout[-1].name), dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        label, number = view.updates.shadow, view.updates.round
        means = np.zeros((len(prior.candidates), rows.shape[1]))
        for user in range(len(means)):
            if (label == user).any():
                means[user] = rows[label == user].mean(axis=0)
        cosine = rows @ means.T
        cosine[label >= 0] = -1  # the adversary's own clients are nobody's presence
        best = np.full((view.rounds + 1, len(means)), -1.0)
        np.maximum.at(best, number, cosine)
        return best[questions.round, questions.candidate][:, None].astype(np.float32)
