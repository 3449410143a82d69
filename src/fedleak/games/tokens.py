"""The `tokens` game: which words did this client train on?

A question points to one update of a client, drawn at random. Which words the client has is compared with what the
attack names; so are the words of every other client, because common words are right for anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedleak.core import Task, percent
from fedleak.errors import AttackError
from fedleak.games.game import BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.games.holders import updates_by_client
from fedleak.metrics import tokens as measures
from fedleak.metrics.metric import Metric
from fedleak.metrics.tokens import TokenAnswers
from fedleak.population.text import PAD, UNKNOWN
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Tokens", "TokenQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenQuestions(Questions):
    """One question per client: a score for every token of the vocabulary; above 0, the attack names it."""

    vocabulary: int
    clients: int

    @property
    def choices(self) -> int:
        """The number of clients."""
        return self.clients


@dataclass(frozen=True, kw_only=True)
class Tokens(BaseGame):
    """Ask for the words of each client's texts."""

    name: ClassVar[str] = "tokens"
    summary: ClassVar[str] = "Which words did this client train on?"
    strongest: ClassVar[str | None] = "token-rows"
    criteria: ClassVar[tuple[Criterion, ...]] = ("inference",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            name="f1",
            title="F1 of the words named for a client",
            short="F1",
            text="The harmonic mean of precision and recall of the words that the attack names for a client, mean over "
            "clients. Chance is the same with the words of another client: common words are right for anybody.",
            measure=measures.f1,
            each_user=measures.NAMED_TOKENS,
        ),
        Metric(
            name="precision",
            title="precision of the words named for a client",
            short="precision",
            text="Of the words that the attack names for a client, the share that is in the client's texts. Chance: in "
            "those of another client.",
            measure=measures.precision,
            column="precision",
        ),
        Metric(
            name="recall",
            title="recall of a client's words",
            short="recall",
            text="Of the words in a client's texts, the share that the attack names. Chance: of another "
            "client's words.",
            measure=measures.recall,
            column="recall",
        ),
        Metric(
            name="own-recall",
            title="recall of words that nobody else uses",
            short="own words",
            text="Of the words in a client's texts that no other client uses, the share that the attack names. These "
            "say most about a person.",
            measure=measures.own_recall,
            applies=measures.has_own,
            column="own words",
        ),
    )
    needs_prior: ClassVar[bool | None] = False
    hides_prior: ClassVar[bool] = True
    needs_evidence: ClassVar[bool] = True
    multiples: ClassVar[bool] = False
    legend: ClassVar[str] = "Own words: words that no other client uses. Chance: the words of another client."

    @property
    def controls(self) -> tuple[str, ...]:
        """None: every prediction is compared with the words of other clients."""
        return ()

    @property
    def note(self) -> str:
        """What counts as a word."""
        return (
            "Words are tokens of the model's vocabulary, without padding and 'unknown'. In which order and how often "
            "a client uses them is not asked."
        )

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How many of a client's words are named."""
        found, sure = scores["recall"], scores["precision"]
        return Headline(
            percent(found.value),
            f"From one update the attack names {percent(found.value)} of the words that a client trained on, and "
            f"{percent(sure.value)} of what it names is right; for another client's words it would be "
            f"{percent(found.chance)} and {percent(sure.chance)}.",
        )

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """A federation of writers, scored against their words or against those of people who took no part."""
        from fedleak.games.traces.writers import write_words

        return Contract(
            game=cls(), write=lambda folder, seed, leak: write_words(folder, seed, leak=leak), metric="f1", seeds=2
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """One update of each client, drawn at random."""
        if trace.header.task is not Task.NEXT_TOKEN:
            raise AttackError(
                f"{trace.folder}: the task is '{trace.header.task and trace.header.task.value}'; words can be asked "
                'for where a model predicts the next word (task = "next-token")'
            )
        if truth.evidence is None:
            raise AttackError(
                f"{trace.folder}: this run did not store the clients' data, so there is nothing to compare words with; "
                "train it with a plan that has the game 'tokens', in another folder (--out)"
            )
        held = truth.evidence.held
        users = tuple(str(user) for user in held.candidates)
        place = {user: index for index, user in enumerate(users)}
        words = np.stack([_words(examples.x, prior.outputs) for examples in held.examples])
        drawn = []
        for client, rows in updates_by_client(trace).items():
            owner = place.get(str(truth.client_user.get(client)))
            if owner is not None and words[owner].any():
                drawn.append((int(rng.choice(rows)), owner))
        if len(drawn) < 2:
            raise AttackError(
                f"{trace.folder}: {len(drawn)} client(s) with words sent an update; the game needs at least two. Take "
                "more users, or train more rounds"
            )
        rows, who = (np.array(column, dtype=np.int64) for column in zip(*sorted(drawn), strict=True))
        return GameInstance(
            questions=TokenQuestions(updates=rows, options=(), vocabulary=prior.outputs, clients=len(users)),
            answers=TokenAnswers(right=who, who=who, users=users, held=words[who]),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.round), -1, dtype=np.int64),
            everything=True,
            hidden=np.flatnonzero(np.asarray(trace.shadow) >= 0),
        )

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject anything but a finite score for every client and token."""
        assert isinstance(questions, TokenQuestions)
        shape = (len(questions), questions.vocabulary)
        if claims.shape != shape:
            raise AttackError(
                f"attack '{attack}' returned an array of shape {claims.shape}; expected (clients, tokens) = {shape}"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all():
            raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} scores that are not finite")
        return claims


def _words(
    x: np.ndarray[tuple[int, ...], np.dtype[np.generic]], vocabulary: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found = np.zeros(vocabulary, dtype=np.bool_)
    found[np.asarray(x).astype(np.int64).ravel()] = True
    found[[PAD, UNKNOWN]] = False
    return found
