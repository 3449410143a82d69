"""Matching through re-identification: two updates match if the same user is the most likely sender of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.match.pairs import OnPairs, asked_pairs, labelled
from fedleak.attacks.network import Network, fit
from fedleak.core import FloatArray
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MatchMlp"]


@dataclass(frozen=True, kw_only=True)
class MatchMlp(Network, OnPairs):
    """Train the network of `reid-mlp` and score a pair by max_u P[i=u] P[j=u] (Orekondy et al., 2018, section 4.4).

    Users who are never seen have no class of their own; their updates match if they resemble the same known users.
    """

    name: ClassVar[str] = "match-mlp"
    summary: ClassVar[str] = "Matches two updates if a multilayer perceptron (MLP) attributes both to the same user."

    # A ranking of users forgives a network that is unsure of all of them; a product of two probabilities does not.
    epochs: Annotated[int, Meta(ge=1, description="epochs over the labelled updates; the paper gives none")] = 300

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair by the logarithm of the largest product."""
        rows, index = asked_pairs(view, questions, self.layer)
        known, who = labelled(view, self.layer, prior)
        (scores,) = fit(known, [np.unique(who, return_inverse=True)[1]], self, context.rng)(rows)
        products = scores[index[:, 0]] + scores[index[:, 1]]
        return np.asarray(products.max(axis=1, keepdims=True), dtype=np.float32)
