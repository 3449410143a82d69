"""Re-identification by the nearest mean: the simplest attack that looks at the whole layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.features import features, spread, unit
from fedleak.core import FloatArray, Power, Sight, Task
from fedleak.games.identify import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Centroid"]


@dataclass(frozen=True, kw_only=True)
class Centroid:
    """Compare an update with the mean labelled update of each person; nothing is trained."""

    name: ClassVar[str] = "reid-centroid"
    summary: ClassVar[str] = "an update is compared with each person's average update"
    game: ClassVar[str] = "identify"
    needs: ClassVar[Sight] = Sight.UPDATES
    powers: ClassVar[Power] = Power.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    layer: Annotated[str, Meta(description="which layer of the update to look at; `last` is the output layer")] = "last"

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> FloatArray:
        """Score every option by the cosine between the update and the option's mean."""
        data = features(view, questions, self.layer)
        classes = np.unique(data.who)
        means = np.stack([data.known[data.who == c].mean(axis=0) for c in classes])
        return spread(data.asked @ unit(means).T, classes, len(questions.options))
