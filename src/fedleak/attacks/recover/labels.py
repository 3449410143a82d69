"""How many examples of each class a client trained on, as its update shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray, Params
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.model import Model
from fedleak.games.recover import ExampleQuestions
from fedleak.lazy import scipy, torch
from fedleak.plan.plan import FederationPlan

__all__ = ["label_counts", "whole"]

_SHOWN = 1000  # public images
_TOTAL = 10.0  # weight of the rule that shares add up to 1


def label_counts(
    model: Model,
    start: Params,
    updates: Params,
    sizes: IntArray,
    plan: FederationPlan,
    questions: ExampleQuestions,
) -> IntArray:
    """How many examples of each class every client has, (clients, classes): as told, or from the last layer's bias.

    With softmax and cross-entropy a local step moves the bias of a class by the learning rate times the share of its
    examples less the probability that the model expects of it (Zhao et al., 2020). What it expects of the examples of
    each class, public images show. Drift over local steps is neglected.
    """
    if questions.labels:
        return np.asarray(questions.labels, dtype=np.int64)
    last = model.layout[-1]
    if "bias" not in dict(last.tensors):
        raise AttackError(
            f"the last layer '{last.name}' has no bias, so an update does not say which labels it was trained on; set "
            'labels = "known" in [[game]] recover, or choose a model whose last layer has a bias'
        )
    classes, public = questions.classes, questions.public.take(slice(0, _SHOWN))
    with one_thread(), torch.no_grad():
        shown = torch.from_numpy(np.asarray(public.x, dtype=np.float32))[None]
        found = model.forward(tensors(model, start), shown)[0].softmax(dim=1).double().numpy()[:, :classes]
    labels = np.asarray(public.y)
    expected = np.stack(
        [
            found[labels == label].mean(axis=0) if (labels == label).any() else found.mean(axis=0)
            for label in range(classes)
        ]
    )
    steps = plan.epochs * -(-sizes // plan.batch)
    moved = np.asarray(updates[last.name][:, last.span("bias")], dtype=np.float64)[:, :classes]
    # Shares s with (1 - expected)' s = moved / (lr steps), not negative, that add up to 1.
    known = np.concatenate([np.eye(classes) - expected.T, np.full((1, classes), _TOTAL)])
    shares = [
        scipy.optimize.nnls(known, np.append(row / (plan.lr * count), _TOTAL))[0]
        for row, count in zip(moved, steps.tolist(), strict=True)
    ]
    return np.stack([whole(row, int(size)) for row, size in zip(shares, sizes, strict=True)])


def whole(shares: Sequence[float] | npt.NDArray[np.float64], total: int) -> IntArray:
    """Whole numbers that add up to a total, in proportion (largest remainders)."""
    wanted = np.asarray(shares, dtype=np.float64)
    wanted = total * (wanted / wanted.sum() if wanted.sum() > 0 else np.full(len(wanted), 1 / len(wanted)))
    found = np.floor(wanted).astype(np.int64)
    found[np.argsort(found - wanted, kind="stable")[: total - int(found.sum())]] += 1
    return found
