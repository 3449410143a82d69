"""What the labels alone reveal: a baseline that uses only how often each class (or word) occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.aware import learn_from
from fedleak.attacks.context import AttackContext
from fedleak.attacks.features import unit
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.game import Questions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["LabelHistogram"]


@dataclass(frozen=True, kw_only=True)
class LabelHistogram:
    """Read the class histogram off the output layer's bias and compare it with each user's prior histogram.

    The gradient of cross-entropy with respect to the output bias is the predicted minus the true frequency of every
    class, with one label per example or several, so the bias update counts labels. An attack that does no better than
    this one has found users' label distribution, not their style.
    """

    name: ClassVar[str] = "reid-labels"
    summary: ClassVar[str] = (
        "Compares only label histograms, as a baseline: how much of the leak is in the labels alone."
    )
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY, Task.MULTI_LABEL, Task.NEXT_TOKEN)
    work = by_rounds

    shrink: Annotated[float, Meta(gt=0, description="ridge penalty of the map from bias update to histogram")] = 0.1

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by the correlation of its histogram with the estimated one."""
        output = view.layout[-1]
        if "bias" not in dict(output.tensors):
            raise AttackError(f"reid-labels reads the output layer's bias, and layer '{output.name}' has none")
        updates = view.updates
        shadows = np.flatnonzero(updates.shadow >= 0)
        if len(shadows) == 0:
            raise AttackError("no shadow client was selected in any round, so no labelled update exists")
        # The bias lies at the end of the layer's row, so only those columns are read from disk.
        span = output.span("bias")
        bias = updates.layer(output.name)[:, span]
        mixes = np.stack([histogram(examples, prior.task, prior.outputs) for examples in prior.examples])
        mixes -= mixes.mean(axis=0)
        scale = mixes.std() or 1.0
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=self.shrink)
        known = learn_from(
            view,
            prior,
            shadows,
            unit(np.asarray(bias[shadows], np.float32)),
            lambda rows: unit(rows[output.name][:, span]),
        )
        model.fit(known, mixes[updates.shadow[shadows]] / scale)
        estimated = model.predict(unit(np.asarray(bias[questions.updates], np.float32)))
        alike = np.asarray(unit(estimated) @ unit(mixes).T, dtype=np.float32)
        last = len(questions.options) - 1
        if alike.shape[1] > last + 1:  # in the open world the last option stands for several strangers
            alike = np.concatenate([alike[:, :last], alike[:, last:].max(axis=1, keepdims=True)], axis=1)
        return alike


def histogram(examples: Examples, task: Task, outputs: int) -> FloatArray:
    """Share of every class, or of every word that the model learns to predict.

    Where an example has several labels, the share of the examples that show the class.
    """
    if task is Task.MULTI_LABEL and examples.y is not None:
        return np.asarray(examples.y.mean(axis=0), dtype=np.float32)
    if task is Task.NEXT_TOKEN:
        targets = examples.x[:, 1:]
        targets = targets[targets > 0]
    elif examples.y is not None:
        targets = examples.y
    else:
        raise AttackError("reid-labels needs class labels in the prior data")
    counts = np.bincount(targets.astype(np.int64).ravel(), minlength=outputs).astype(np.float32)
    return counts / max(1.0, float(counts.sum()))
