"""Attribute inference from the words that a client used (bag of words)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.attribute.labels import classes, values
from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import fill_missing_candidates, labelled, stream_rows, unit
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["AttributeWords"]


@dataclass(frozen=True, kw_only=True)
class AttributeWords:
    """Separate the groups by the rows of the embedding that changed, and by the output bias, with a linear model.

    A word's row of the embedding has a gradient only where the word occurs, so the rows that are not exactly zero are
    the client's vocabulary (Melis et al., 2019, section 4.1), whatever the training did to the model in between. The
    output bias moves by how much more often than predicted a word came.
    """

    name: ClassVar[str] = "attribute-words"
    summary: ClassVar[str] = (
        "Reads from the embedding update which words a client used (bag of words), and compares them between groups."
    )
    game: ClassVar[str] = "attribute"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_rounds

    cost: Annotated[float, Meta(gt=0, description="regularisation parameter C")] = 1.0

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every value by a linear model's probability."""
        shadows = labelled(view)
        who = view.updates.shadow[shadows]
        present, target = classes(values(questions, who))
        # The same weight to every user: who was selected more often is not more typical of a group.
        _, user, count = np.unique(who, return_inverse=True, return_counts=True)
        known, asked = vocabulary(view, shadows), vocabulary(view, questions.updates)
        mean = known.mean(axis=0)
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=self.cost, max_iter=2000)
        model.fit(known - mean, target, sample_weight=1 / count[user])
        return fill_missing_candidates(
            np.asarray(model.predict_log_proba(asked - mean), np.float32), present, len(questions.options)
        )


def vocabulary(view: View, rows: IntArray) -> FloatArray:
    """Which rows of the first layer moved (1 or 0), beside the output bias update scaled to length one.

    The rows of the view come in rising order.
    """
    first, last = view.layout[0], view.layout[-1]
    name, (height, *_) = first.tensors[0]

    def moved(block: FloatArray) -> FloatArray:
        return np.asarray(block[:, first.span(name)].reshape(len(block), height, -1).any(axis=2), dtype=np.float32)

    used = stream_rows(view, first.name, rows, moved, height)
    if "bias" not in dict(last.tensors):
        return used
    span = last.span("bias")
    bias = stream_rows(view, last.name, rows, lambda block: unit(block[:, span]), span.stop - span.start)
    return np.concatenate([used, bias], axis=1)
