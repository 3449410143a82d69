"""Find clients that fit a profile with proxy clients in the federation, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import fitting, layer_name, stream_rows, unit
from fedleak.attacks.network import Network, fit
from fedleak.attacks.profile.same_client import same_client
from fedleak.attacks.sketch import Sketch
from fedleak.core import FloatArray, rng_for
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.games.profile import ProfileQuestions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["ProfileProxy"]


@dataclass(frozen=True, kw_only=True)
class ProfileProxy(Network, SingleLayerAttack):
    """Train the network of the re-identification attack on the updates of proxy clients, with and without the trait.

    The profile is a device in the federation (Orekondy et al., 2020, sections 5.2.2 and 6.1.1). The paper does not say
    what its network tells the profile from; here it is proxy clients with other examples of the same classes.
    """

    name: ClassVar[str] = "profile-proxy"
    summary: ClassVar[str] = (
        "Trains a multilayer perceptron (MLP) on updates of proxy clients with curated data to find clients like them."
    )
    game: ClassVar[str] = "profile"
    needs_proxies: ClassVar[bool] = True

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score a client by the network's log-probability of the trait, over all its updates that can be linked."""
        if not isinstance(questions, ProfileQuestions):
            raise AttackError("this attack answers the questions of the game 'profile' only")
        label, about = view.updates.shadow, same_client(view, questions)
        if not {0, 1} <= set(label[label >= 0].tolist()):
            raise AttackError(
                "no proxy client with the trait and one without it took part; add a table [proxy], or train more rounds"
            )
        name = layer_name(view, self.layer)
        wanted = np.flatnonzero((label >= 0) | (about >= 0))
        size = next(part.size for part in view.layout if part.name == name)
        sketch = Sketch(size, fitting(context.memory, 2 * len(wanted)), rng_for(0, "sketch", name))
        table = stream_rows(view, name, wanted, lambda rows: unit(sketch(rows)), sketch.dims)
        own = label[wanted] >= 0
        # Class 1 is the trait.
        (scores,) = fit(table[own], [1 - label[wanted][own]], self, context.rng)(table[~own])
        total, count = np.zeros(len(questions)), np.zeros(len(questions))
        np.add.at(total, about[wanted][~own], scores[:, 1] - scores[:, 0])
        np.add.at(count, about[wanted][~own], 1)
        return np.asarray(total / count, dtype=np.float32)[:, None]
