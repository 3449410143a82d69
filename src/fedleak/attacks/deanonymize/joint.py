"""Re-identification trained jointly with known attributes of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.single_layer import SingleLayerAttack
from fedleak.attacks.features import features, fill_missing_candidates, labelled
from fedleak.attacks.network import Network, fit
from fedleak.core import FloatArray, IntArray
from fedleak.errors import AttackError, did_you_mean
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Joint"]


@dataclass(frozen=True, kw_only=True)
class Joint(Network, SingleLayerAttack):
    """Learn identity and attributes with one network (Orekondy et al., 2020, Figure 3d; Table 4, last column).

    The adversary knows which user its prior data belongs to, and therefore often their sex or age.
    """

    name: ClassVar[str] = "reid-joint"
    summary: ClassVar[str] = (
        "Trains one neural network to predict users and their known attributes jointly (multi-task learning)."
    )

    attributes: Annotated[
        tuple[str, ...], Meta(description="attributes to learn in addition to identity; all known ones if absent")
    ] = ()

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by the probability of the identity head."""
        data = features(view, questions, self.layer, context.memory, prior)
        candidate = view.updates.shadow[labelled(view)]
        classes, target = np.unique(data.who, return_inverse=True)
        heads = [column[candidate] for column in self._known(prior)]
        scores, *_ = fit(data.known, [target, *heads], self, context.rng)(data.asked)
        return fill_missing_candidates(scores, classes, len(questions.options))

    def _known(self, prior: Prior) -> list[IntArray]:
        """For each attribute the value of every candidate as a class; -1 where it is not known."""
        known = sorted({name for about in prior.attributes for name in about})
        if not known:
            raise AttackError(
                "reid-joint learns attributes in addition to identity, but these users have none; use reid-mlp"
            )
        columns = []
        for name in self.attributes or known:
            if name not in known:
                raise AttackError(f"reid-joint: no user has the attribute '{name}'{did_you_mean(name, known)}")
            values = sorted({about[name] for about in prior.attributes if name in about})
            index = {value: i for i, value in enumerate(values)}
            columns.append(np.array([index.get(about.get(name, ""), -1) for about in prior.attributes], np.int64))
        return columns
