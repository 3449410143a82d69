"""Shared by all linking attacks: extract features of updates, compare them, and choose a threshold.

The threshold comes from shadow clients alone, never from the updates in the questions. Any attack can also use that the
updates come from "a fixed group of clients": by what was linked before (`voting`), and by a one-to-one assignment
between two rounds (Kuhn, 1955), because no client sends two updates in one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import unit
from fedleak.attacks.link.federation import auxiliary_set, deal, deal_users, shadow_rounds, users_of
from fedleak.attacks.link.voting import mean_similarity, name_updates, same_identity
from fedleak.attacks.reconstruct.labels import present
from fedleak.attacks.shadow import model_of
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, FloatArray, IntArray, Observation, Params, Task
from fedleak.errors import AttackError
from fedleak.federation.model import Model
from fedleak.games.game import Questions
from fedleak.lazy import scipy
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Linker", "Embed", "Shadows", "standardised"]

Embed: TypeAlias = Callable[[FloatArray], FloatArray]
"""Features, one row each, -> unit vectors whose cosine is the similarity of two updates."""

_AHEAD = 2.5  # added to the score of an assigned pair: more than the largest difference of two cosines


@dataclass(frozen=True, slots=True)
class Shadows:
    """Features of the shadow clients' updates, with the sender and the round of each."""

    rows: FloatArray
    who: IntArray
    round: IntArray

    def of(self, clients: npt.NDArray[np.bool_]) -> Shadows:
        """Only what some clients sent."""
        kept = clients[self.who]
        return Shadows(self.rows[kept], np.unique(self.who[kept], return_inverse=True)[1], self.round[kept])


@dataclass(frozen=True, kw_only=True)
class Linker:
    """Settings of every linking attack, and the way from updates to predictions."""

    game: ClassVar[str] = "link"
    needs_model: ClassVar[str] = "any"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)
    work = by_rounds
    imitates: ClassVar[bool] = True  # it simulates clients, to which it can apply the defences

    shadows: Annotated[int, Meta(ge=4, description="shadow clients, half to learn from, half to set the threshold")] = (
        20
    )
    shadow_rounds: Annotated[
        int, Meta(ge=2, description="rounds of the shadow clients that are used, evenly over the run")
    ] = 12
    shadow_data: Annotated[
        Literal["auto", "users", "classes"],
        Meta(
            description="data of a shadow client: `users`, that of one user of the auxiliary set; `classes`, of "
            "anybody, but of as many classes as real clients have; `auto`, by users if the set has enough of them"
        ),
    ] = "auto"
    history: Annotated[
        Literal["none", "vote", "mean"],
        Meta(
            description="what is used of the rounds before: `none`, only the two updates; `vote`, the majority vote of "
            "the paper's Algorithm 2; `mean`, the mean similarity to an identity's last rounds, not in the paper"
        ),
    ] = "none"
    k: Annotated[int, Meta(ge=1, description="how many past rounds of an identity vote, or are averaged (K)")] = 3
    steps: Annotated[
        Literal["gap", "every"],
        Meta(
            description="rounds that a history is made of: as far apart as the two compared (the paper's Fig. 6), or "
            "every round of the run"
        ),
    ] = "gap"
    assign: Annotated[
        bool, Meta(description="between two rounds every client has at most one update: assign them one to one")
    ] = False

    def describe(self, view: View, model: Model, before: Params, updates: Params) -> FloatArray:
        """Features of the updates of one round, a row each."""
        raise NotImplementedError

    def learn(self, view: View, model: Model, known: Shadows, rng: np.random.Generator) -> Embed:
        """Learn to tell senders apart; by default nothing is learnt."""
        return lambda rows: unit(standardised(rows).reshape(len(rows), -1))

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair by its similarity minus the threshold."""
        if questions.updates.ndim != 2:
            raise AttackError("a linking attack needs questions about pairs of updates; use it in the game 'link'")
        model = model_of(view)
        seed = int(context.rng.integers(2**31))
        number = view.updates.round
        earlier, later = number[questions.updates[:, 0]], number[questions.updates[:, 1]]
        compared = np.unique(np.stack([earlier, later], axis=1), axis=0).tolist()
        histories = {(first, second): self._history(number, first, second) for first, second in compared}
        described = sorted({at for rounds in histories.values() for at in rounds})
        first_part = self.shadow_rounds / (self.shadow_rounds + len(described))  # of the rounds that are described
        embed, threshold = self._learnt(
            view,
            model,
            prior,
            compared[0][0],
            context.rng,
            seed,
            tell=lambda share: context.progress(first_part * share),
        )
        table = np.full(len(number), -1, dtype=np.int64)
        vectors: dict[int, FloatArray] = {}
        for place, at in enumerate(described):
            vectors[at] = embed(self.describe(view, model, view.snapshot(at - 1), _updates(view, model, at)))
            table[number == at] = np.arange(len(vectors[at]))
            context.progress(first_part + (1 - first_part) * (place + 1) / len(described))
        claims = np.empty(len(questions), dtype=np.float32)
        for first, second in compared:
            asked = (earlier == first) & (later == second)
            alike = self._compared(vectors, histories[first, second], first, second, threshold)
            if self.assign:
                mine, theirs = scipy.optimize.linear_sum_assignment(-alike)
                # An assigned pair comes first in its search; whether it is alike enough is another question.
                alike[mine, theirs] += np.where(alike[mine, theirs] > 0, _AHEAD, 0)
                others = np.ones_like(alike, dtype=np.bool_)
                others[mine, theirs] = False
                alike[others] -= _AHEAD
            a, b = table[questions.updates[asked]].T
            claims[asked] = alike[a, b]
        return claims[:, None]

    def identities(self, view: View, prior: Prior, rng: np.random.Generator) -> IntArray:
        """An identity for each update by the vote of Algorithm 2: those of the first round are the identities."""
        model, number = model_of(view), view.updates.round
        rounds = np.unique(number).tolist()
        embed, _ = self._learnt(view, model, prior, rounds[0], rng, int(rng.integers(2**31)))
        vectors = [embed(self.describe(view, model, view.snapshot(at - 1), _updates(view, model, at))) for at in rounds]
        found = np.empty(len(number), dtype=np.int64)
        for at, named in zip(rounds, name_updates(vectors, self.k), strict=True):
            found[number == at] = named.identity
        return found

    def _learnt(
        self,
        view: View,
        model: Model,
        prior: Prior,
        at: int,
        rng: np.random.Generator,
        seed: int,
        tell: Callable[[float], None] = lambda share: None,
    ) -> tuple[Embed, float]:
        """Learn from shadow clients like those of one round; half of them set the threshold."""
        known = self._shadows(view, model, prior, _updates(view, model, at), rng, seed, tell)
        learners = np.zeros(self.shadows, dtype=np.bool_)
        learners[: self.shadows // 2] = True
        embed = self.learn(view, model, known.of(learners), rng)
        return embed, threshold_of(known.of(~learners), embed)

    def _history(self, number: IntArray, first: int, second: int) -> list[int]:
        """The rounds to be described for comparing two, in order, both included."""
        if self.history == "none":
            return [first, second]
        step = second - first if self.steps == "gap" else 1
        rounds = np.unique(number)
        rounds = rounds[((rounds - first) % step == 0) & (rounds <= second)]
        if self.history == "vote":
            return [int(at) for at in rounds]
        return [*(int(at) for at in rounds[rounds <= first][-self.k :]), second]

    def _compared(
        self, vectors: Mapping[int, FloatArray], history: Sequence[int], first: int, second: int, threshold: float
    ) -> npt.NDArray[np.float32]:
        """Scores of all pairs of updates of two rounds; above 0 for one client."""
        if self.history == "vote":
            named = dict(zip(history, name_updates([vectors[at] for at in history], self.k), strict=True))
            return same_identity(named[first], named[second], vectors[first] @ vectors[second].T, self.k)
        return mean_similarity([vectors[at] for at in history[-2::-1]], vectors[second]) - threshold

    def _shadows(
        self,
        view: View,
        model: Model,
        prior: Prior,
        updates: Params,
        rng: np.random.Generator,
        seed: int,
        tell: Callable[[float], None],
    ) -> Shadows:
        """Simulate the federation with clients like the real ones: one user each, or as many classes as these have."""
        auxiliary = auxiliary_set(prior, int(view.settings["outputs"]))
        classes = int(np.median(present(model.layout, updates).counts()))
        if self.shadow_data == "users" or (self.shadow_data == "auto" and users_of(auxiliary) >= self.shadows):
            clients = deal_users(auxiliary, self.shadows, rng)
        else:
            clients = deal(auxiliary, self.shadows, classes, rng)
        wanted = np.unique(np.linspace(1, view.rounds, min(self.shadow_rounds, view.rounds)).round().astype(np.int64))
        rows = []
        for before, sent in shadow_rounds(view, model, clients, wanted, seed):
            rows.append(self.describe(view, model, before, sent))
            tell(len(rows) / len(wanted))
        if len(rows) < 2:
            raise AttackError("the adversary's own federation diverged, so there is nothing to learn from; lower lr")
        who = np.tile(np.arange(self.shadows), len(rows))
        return Shadows(np.concatenate(rows), who, np.repeat(np.arange(len(rows)), self.shadows))


def _updates(view: View, model: Model, at: int) -> Params:
    rows = np.flatnonzero(view.updates.round == at)
    return {layer.name: np.asarray(view.updates.layer(layer.name)[rows]) for layer in model.layout}


def threshold_of(known: Shadows, embed: Embed) -> float:
    """The cosine that best separates pairs from one shadow client from pairs of two, both kinds weighted equally."""
    vectors = embed(known.rows)
    first, second = np.triu_indices(len(vectors), 1)
    apart = known.round[first] != known.round[second]
    first, second = first[apart], second[apart]
    alike = np.einsum("pd,pd->p", vectors[first], vectors[second])
    same = known.who[first] == known.who[second]
    order = np.argsort(-alike, kind="stable")
    right = np.cumsum(same[order]) / max(1, same.sum()) - np.cumsum(~same[order]) / max(1, (~same).sum())
    best = int(right.argmax())
    after = min(best + 1, len(order) - 1)
    return float((alike[order[best]] + alike[order[after]]) / 2)


def standardised(rows: FloatArray) -> FloatArray:
    """Standardise every image, or every update, to mean 0 and standard deviation 1; empty rows stay empty.

    The brightness of a representative, or the norm of an update, says more about the round than about the client.
    """
    axes = tuple(range(2 if rows.ndim > 2 else 1, rows.ndim))
    middle, spread = rows.mean(axis=axes, keepdims=True), rows.std(axis=axes, keepdims=True)
    return np.asarray(np.where(spread > 0, (rows - middle) / np.where(spread > 0, spread, 1), 0), dtype=np.float32)
