"""Matching updates with text: the adversary knows sentences about users whose clients train on images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import layer_name, unit
from fedleak.attacks.match.embedding import hashed, sentence
from fedleak.attacks.match.pairs import PairDraw, PairNetwork, fit_pairs, labelled
from fedleak.attacks.network import dense
from fedleak.core import FloatArray, IntArray, Task
from fedleak.errors import AttackError
from fedleak.games.cross_modal import Described
from fedleak.games.game import Questions
from fedleak.lazy import functional, torch
from fedleak.population.captions import words
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MatchText"]


@dataclass(frozen=True, kw_only=True)
class MatchText(PairNetwork, SingleLayerAttack):
    """A two-branch network: a layer for updates, one for text, L1 distance, one unit (Orekondy et al., 2020, Fig. 3c).

    A user's text is the mean of the sentences' vectors, as in the paper. It is then standardised over the users: what
    all sentences share would otherwise dominate what sets users apart.
    """

    name: ClassVar[str] = "match-text"
    summary: ClassVar[str] = "Trains a network to match updates with text about a user (cross-modal matching)."
    game: ClassVar[str] = "cross-modal"
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    embedding: Annotated[
        Literal["hashed", "sentence"],
        Meta(description="vectors of sentences: hashed words, or a language model (extra `text`)"),
    ] = "hashed"
    epochs: Annotated[int, Meta(ge=1, description="how often every labelled update is paired with two texts")] = 20

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair of update and text by the network's logit."""
        if not isinstance(questions, Described):
            raise AttackError("match-text needs questions about updates and text; use it in the game 'cross-modal'")
        about = torch.from_numpy(self._text(prior))
        known, who = labelled(view, self.layer, prior)
        users = np.unique(who)
        if len(users) < 2:
            raise AttackError("match-text needs labelled updates of at least two users to learn from; hold out more")
        updates = torch.from_numpy(known)
        towers = [*dense(known.shape[1], self.hidden, context.rng), *dense(about.shape[1], self.hidden, context.rng)]
        out = dense(self.hidden, 1, context.rng)

        def score(rows: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
            seen = torch.relu(functional.linear(rows, *towers[:2]))
            told = torch.relu(functional.linear(text, *towers[2:]))
            return functional.linear((seen - told).abs(), *out).squeeze(1)

        def learn(row: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
            return score(updates[row], about[candidate])

        fit_pairs([*towers, *out], learn, lambda: draw_text_pairs(who, users, context.rng), self, context.rng)
        rows, index = np.unique(questions.updates, return_inverse=True)
        asked = unit(np.asarray(view.updates.layer(layer_name(view, self.layer))[rows], dtype=np.float32))
        with torch.no_grad():
            return torch.cat(
                [
                    score(torch.from_numpy(asked[i]), about[c])
                    for i, c in zip(chunks(index), chunks(questions.candidate), strict=True)
                ]
            )[:, None].numpy()

    def _text(self, prior: Prior) -> FloatArray:
        captions = [words(examples.x, prior.outputs) for examples in prior.examples]
        embed = hashed if self.embedding == "hashed" else sentence
        vectors = embed([caption for user in captions for caption in user])
        ends = np.cumsum([len(user) for user in captions])
        means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends[:-1])])
        spread = means.std(axis=0)
        return np.asarray((means - means.mean(axis=0)) / np.where(spread > 0, spread, 1), dtype=np.float32)


def chunks(rows: IntArray, size: int = 256) -> list[IntArray]:
    """Some rows at a time: an update is in several questions, and all of them side by side would fill the memory."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def draw_text_pairs(who: IntArray, users: IntArray, rng: np.random.Generator) -> PairDraw:
    """Pair every update with its own user's text and with somebody else's; `users` are sorted."""
    mine = np.searchsorted(users, who)
    other = (mine + rng.integers(1, len(users), size=len(who))) % len(users)
    label = np.repeat(np.asarray([1, 0], dtype=np.float32), len(who))
    return np.tile(np.arange(len(who)), 2), users[np.concatenate([mine, other])], label
