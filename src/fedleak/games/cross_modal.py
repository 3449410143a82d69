"""The `cross-modal` game: does this update come from the user that this text is about?

The clients train on images, and the adversary has only text about each user (Orekondy et al., 2020, section 6.1.1, eq.
7). To learn which update goes with which text it needs users with both. By default these are held-out users, who are
not in any question. The paper does not say whose updates it learned from; `learn_from = "everyone"` is the reading in
which the adversary also runs shadow clients on prior images of the users in the questions, which is more than text.

The text is a stand-in: rule-based captions of the prior images (`fedleak.population.captions`), not users' own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import IntArray, Task, percent
from fedleak.errors import AttackError
from fedleak.games.game import Answers, GameInstance, Headline, OptionGame, Questions
from fedleak.games.identify import anonymous, draw_users, relabel, senders
from fedleak.games.match import SAME
from fedleak.games.pairs import between_sides
from fedleak.metrics.metric import YES_NO_METRICS, Metric
from fedleak.population.captions import describe, tokens
from fedleak.population.population import Examples
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["CrossModal", "Described"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Questions):
    """Questions about an update and a candidate each; the one option is `same`."""

    candidate: IntArray  # (questions,) index into the prior's candidates, whose examples are captions


@dataclass(frozen=True, kw_only=True)
class CrossModal(OptionGame):
    """Ask about all pairs of an anonymous update and a user's captions; half of the scored pairs match."""

    name: ClassVar[str] = "cross-modal"
    needs_data: ClassVar[tuple[str, ...]] = ("images",)
    summary: ClassVar[str] = "Does this update come from the user that this text is about?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("linkability",)
    strongest: ClassVar[str | None] = "match-text"
    metrics: ClassVar[tuple[Metric, ...]] = YES_NO_METRICS

    learn_from: Annotated[
        Literal["held-out", "everyone"],
        Meta(
            description="the users whose labelled updates the attack has in addition to their text: only held-out "
            "users, or also the users in the questions"
        ),
    ] = "held-out"
    held_out: Annotated[float, Meta(gt=0, lt=1, description="share of the users used only to train the attack")] = 0.5
    pairs: Annotated[
        int,
        Meta(
            ge=4,
            description="at most this many are asked about: some updates with the text about every user; those that "
            "are scored, half of them right, are not known to the attack",
        ),
    ] = 40_000

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """How often the text about the sender is distinguished from another text."""
        area = scores["auc"]
        return Headline(
            percent(area.value),
            "Given an update with a text about its sender and one with a text about another user, the attack tells "
            f"which is which in {percent(area.value)} of cases; guessing would manage {percent(area.chance)}.",
        )

    @classmethod
    def for_contract(cls) -> CrossModal:
        """Half of these few users would be too few to learn from."""
        return cls(learn_from="everyone")

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Turn the prior into text, and pair anonymous updates with every user in the questions."""
        sender, rows = senders(trace, truth, prior), anonymous(trace)
        users = len(prior.candidates)
        asked = learnt = np.arange(users, dtype=np.int64)
        if self.learn_from == "held-out":
            _, asked, learnt = draw_users(users, 0.0, self.held_out, rng)
        if min(len(asked), len(learnt)) < 2:
            raise AttackError(
                f"cross-modal: held_out = {self.held_out:g} of {users} users leaves {len(learnt)} for training and "
                f"{len(asked)} for questions; at least two of each are needed. Change it ([[game]]), or take more users"
            )
        rows = rows[np.isin(sender[rows], asked)]
        drawn = between_sides(
            [np.asarray([user]) for user in range(users)],
            [rows[sender[rows] == user] for user in range(users)],
            self.pairs,
            rng,
        )
        candidate, updates = drawn.first, drawn.second
        if len(drawn.scored) == 0:
            raise AttackError(f"{trace.folder}: fewer than two of the {len(asked)} users in question sent an update")
        kept = np.union1d(asked, learnt)
        return GameInstance(
            questions=Described(updates=updates, options=(SAME,), candidate=np.searchsorted(kept, candidate)),
            answers=Answers(
                right=drawn.right,
                who=np.stack([candidate, sender[updates]], axis=1),
                users=tuple(map(str, prior.candidates)),
                scored=drawn.scored,
                cells=drawn.cells,
            ),
            prior=in_words(prior.take(kept), str(trace.folder)),
            shadow=np.where(
                np.isin(trace.shadow, learnt), relabel(np.asarray(trace.shadow), kept, users), np.int64(-1)
            ),
        )


def in_words(prior: Prior, where: str) -> Prior:
    """Replace every image by a sentence about it, as word ids; drop everything else known about users."""
    whole = Examples.concat(prior.examples)
    if prior.task is not Task.CLASSIFY or whole.x.ndim != 4 or whole.y is None:
        raise AttackError(
            f"{where}: the game 'cross-modal' describes images with one class each; this data set has none "
            f"(task '{prior.task.value}', examples of shape {whole.x.shape[1:]}). Remove the game and its attacks"
        )
    ids = tokens(describe(whole.x, whole.y), prior.outputs)
    ends = np.cumsum([len(examples) for examples in prior.examples])
    return replace(prior, examples=tuple(Examples(x=part) for part in np.split(ids, ends[:-1])), attributes=())
