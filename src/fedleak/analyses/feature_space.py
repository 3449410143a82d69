"""Users as points in a space: what the adversary knows of them, and what they keep or send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import has_setting
from fedleak.attacks.features import features, unit
from fedleak.core import FloatArray, IntArray
from fedleak.games.identify import Identify
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import Run
from fedleak.plan.configure import to_dict
from fedleak.plan.plan import Plan
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared, prepare
from fedleak.views.view import View

__all__ = ["Points", "Raw", "of_updates", "of_data", "layer_of", "LayerName"]

LayerName: TypeAlias = (
    Annotated[str, Meta(description="which layer of the updates; that of the plan's first attack if absent")] | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Two sides of the same users, as rows of length one in one space."""

    users: tuple[str, ...]
    known: FloatArray  # from the prior data
    known_who: IntArray  # index into users
    private: FloatArray
    private_who: IntArray

    def thinned(self, most: int, rng: np.random.Generator, users: IntArray | None = None) -> Points:
        """At most so many points of each user on each side; with `users`, only theirs."""
        kept = np.arange(len(self.users)) if users is None else users
        known = np.concatenate([_some(self.known_who, user, most, rng) for user in kept])
        private = np.concatenate([_some(self.private_who, user, most, rng) for user in kept])
        place = np.full(len(self.users), -1)
        place[kept] = np.arange(len(kept))
        return Points(
            users=tuple(self.users[user] for user in kept),
            known=self.known[known],
            known_who=place[self.known_who[known]],
            private=self.private[private],
            private_who=place[self.private_who[private]],
        )

    @property
    def present(self) -> IntArray:
        """Who has points on both sides."""
        return np.intersect1d(self.known_who, self.private_who)


def of_updates(plan: Plan, run: Run, layer: str) -> Points:
    """One layer of the updates, as the attacks see it: shadow clients on one side, anonymous ones on the other."""
    given = build_questions(run, Identify())
    view = View(run.folder / "trace", plan.adversaries[0], given.shadow)
    found = features(view, given.questions, layer, plan.audit.memory)
    return Points(
        users=given.questions.options,
        known=found.known,
        known_who=found.who,
        private=found.asked,
        private_who=given.answers.right,
    )


def of_data(plan: Plan, run: Run, most: int, rng: np.random.Generator) -> Points:
    """The examples that the two clients of each user train on, at most so many of each."""
    prepared = prepare(plan.dataset, plan.population, run.seed, iid=run.variant.control == "iid")
    raw = Raw(prepared)
    sides = []
    for side in ("prior", "private"):
        every = [getattr(share, side) for share in prepared.shares]
        rows = [raw.rows(examples.take(np.sort(rng.permutation(len(examples))[:most]))) for examples in every]
        sides.append((unit(np.concatenate(rows)), np.repeat(np.arange(len(rows)), [len(part) for part in rows])))
    return Points(
        users=tuple(str(share.user.id) for share in prepared.shares),
        known=sides[0][0],
        known_who=sides[0][1],
        private=sides[1][0],
        private_who=sides[1][1],
    )


class Raw:
    """Examples as rows of numbers: pixels or columns, or how often each word occurs.

    The mean of the prior data, which the adversary knows, is the origin: without that all images point the same way.
    Rows are made when they are asked for, because those of text are as wide as the vocabulary.
    """

    def __init__(self, prepared: Prepared) -> None:
        sides = [examples for share in prepared.shares for examples in (share.prior, share.private)]
        text = np.issubdtype(prepared.test.x.dtype, np.integer)
        self._words = 1 + max(int(examples.x.max()) for examples in sides) if text else 0
        means = [self._plain(share.prior).mean(axis=0) for share in prepared.shares]
        self._centre: FloatArray = np.mean(means, axis=0, dtype=np.float32)

    def rows(self, examples: Examples) -> FloatArray:
        """One row an example."""
        centred: FloatArray = self._plain(examples) - self._centre
        return centred

    def _plain(self, examples: Examples) -> FloatArray:
        if not self._words:
            return np.asarray(examples.x.reshape(len(examples), -1), dtype=np.float32)
        counts = np.zeros((len(examples), self._words), dtype=np.float32)
        np.add.at(counts, (np.arange(len(examples))[:, None], examples.x), 1)
        counts[:, 0] = 0  # padding
        shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares


def layer_of(plan: Plan, layer: str | None) -> str:
    """The layer asked for, or the one that the plan's first attack on a layer looks at."""
    return layer or next(
        (str(to_dict(attack)["layer"]) for attack in plan.attacks if has_setting(attack, "layer")), "last"
    )


def _some(who: IntArray, user: int, most: int, rng: np.random.Generator) -> IntArray:
    rows = np.flatnonzero(who == user)
    return np.sort(rng.permutation(rows)[:most])
