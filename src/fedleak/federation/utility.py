"""Utility of the trained model, compared with a constant answer, nearest neighbours and centralised training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import Params, Task, rng_for
from fedleak.errors import TrainingError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread, tensors
from fedleak.federation.federation import initial
from fedleak.federation.loss import inputs, task_of
from fedleak.federation.model import Model
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = [
    "UtilityMetric",
    "METRICS",
    "metric_of",
    "evaluate",
    "bits",
    "bits_blind",
    "judge",
    "nearest",
    "chance",
    "centralised",
]

_SPECIAL = 2  # tokens 0 (padding) and 1 (unknown): nobody wants them predicted
_AT_ONCE = 256  # examples: bounds the memory of an evaluation


@dataclass(frozen=True, slots=True)
class UtilityMetric:
    """What utility is called, and which way is better."""

    name: str
    higher_is_better: bool


METRICS: Mapping[Task, UtilityMetric] = {
    Task.CLASSIFY: UtilityMetric("accuracy", True),
    Task.MULTI_LABEL: UtilityMetric("ap", True),
    Task.NEXT_TOKEN: UtilityMetric("top5", True),
    Task.REGRESS: UtilityMetric("mae", False),
}


def metric_of(task: Task, *, spelt: bool = False) -> UtilityMetric:
    """The task's metric; where text is spelt, bits per character, by which such models are compared."""
    return UtilityMetric("bpc", False) if spelt else METRICS[task]


def bits(model: Model, weights: Params, test: Examples) -> float:
    """Bits per character of a text under the model."""
    values, pool, found = tensors(model, weights), Pool.of([test], ["test"]), []
    with one_thread(), torch.inference_mode():
        for start in range(0, len(test), _AT_ONCE):
            x = pool.x[start : start + _AT_ONCE]
            logs = model.forward(values, inputs(Task.NEXT_TOKEN, x).unsqueeze(0)).squeeze(0).log_softmax(-1)
            wanted = x[:, 1:] != 0
            found.append(logs[wanted].gather(1, x[:, 1:][wanted].unsqueeze(1)))
    return -_average(torch.cat(found).numpy()) / math.log(2)


def bits_blind(train: Examples, test: Examples) -> float:
    """The same under character frequencies of the training texts alone (unigram model)."""
    wanted = test.x[:, 1:][test.x[:, 1:] != 0]
    # One more of each, so that a character that nobody has used costs much and not everything (Laplace).
    counts = np.bincount(train.x[train.x != 0], minlength=int(max(train.x.max(), test.x.max())) + 1) + 1.0
    counts[0] = 0
    return -_average(np.log2(counts[wanted] / counts.sum()))


def evaluate(model: Model, weights: Params, test: Examples, task: Task, *, spelt: bool = False) -> float:
    """Measure a model on held-out examples, by the task's metric."""
    if spelt:
        return bits(model, weights, test)
    values = tensors(model, weights)
    pool = Pool.of([test], ["test"])
    found = []
    with one_thread(), torch.inference_mode():
        for start in range(0, len(test), _AT_ONCE):
            x = pool.x[start : start + _AT_ONCE]
            outputs = model.forward(values, inputs(task, x).unsqueeze(0)).squeeze(0)
            # A vocabulary of scores for each word is too much to keep until the end.
            found.append(_hits(outputs, x) if task is Task.NEXT_TOKEN else outputs)
    whole = torch.cat(found).numpy()
    return _average(whole) if task is Task.NEXT_TOKEN else judge(whole, test.y, task)


def _hits(outputs: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Whether each word that follows is among the five most likely."""
    targets = x[:, 1:]
    wanted = targets >= _SPECIAL
    best = outputs[wanted][:, _SPECIAL:].topk(min(5, outputs.shape[-1] - _SPECIAL)).indices + _SPECIAL
    return (best == targets[wanted].unsqueeze(1)).any(1)


def judge(outputs: npt.NDArray[Any], y: npt.NDArray[Any] | None, task: Task) -> float:
    """Measure answers, one row of outputs per example, against the labels."""
    if y is None:
        raise TrainingError("utility cannot be measured: the test examples have no labels")
    if task is Task.MULTI_LABEL:
        return _precision(outputs, y)
    return _average(outputs.argmax(1) == y if task is Task.CLASSIFY else np.abs(outputs.reshape(-1) - y))


def _precision(scores: npt.NDArray[Any], y: npt.NDArray[Any]) -> float:
    """The mean over classes of the average precision of a ranking of the examples; classes nobody shows are left out.

    A model that has diverged ranks nothing, and scores as one that says the same about every example.
    """
    present = np.flatnonzero(y.any(axis=0))
    if not len(present):
        raise TrainingError("utility cannot be measured: no test example shows any of the classes")
    ranked = np.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0)
    from sklearn.metrics import average_precision_score

    return float(np.mean([average_precision_score(y[:, c], ranked[:, c]) for c in present]))


def nearest(train: Examples, test: Examples, task: Task, k: int = 10) -> float | None:
    """What the k nearest training examples say, by plain distance: a yardstick that learns nothing (Table 2).

    None for text, whose token ids have no distance.
    """
    if np.issubdtype(train.x.dtype, np.integer) or train.y is None:
        return None
    flat = [examples.x.reshape(len(examples), -1) for examples in (train, test)]
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=min(k, len(train)), algorithm="brute").fit(flat[0])
    near = index.kneighbors(flat[1], return_distance=False)
    labels = np.eye(int(train.y.max()) + 1, dtype=np.float32)[train.y] if task is Task.CLASSIFY else train.y
    # Ties between classes go to the lower one, as everywhere that argmax decides.
    return judge(labels[near].mean(axis=1), test.y, task)


def chance(train: Examples, test: Examples, task: Task, *, spelt: bool = False) -> float:
    """The best answer that never looks at the input: the most common class, the five most common words, the median.

    Whoever ranks examples without looking at them finds a class as often as it occurs.
    """
    if spelt:
        return bits_blind(train, test)
    if task is Task.NEXT_TOKEN:
        seen, wanted = (_words(examples) for examples in (train, test))
        common = np.argsort(-np.bincount(seen), kind="stable")[:5]
        return _average(np.isin(wanted, common))
    if train.y is None or test.y is None:
        raise TrainingError("chance cannot be told: the examples have no labels")
    if task is Task.CLASSIFY:
        return float(np.mean(test.y == np.bincount(train.y).argmax()))
    if task is Task.MULTI_LABEL:
        return judge(np.zeros(test.y.shape), test.y, task)
    return float(np.mean(np.abs(test.y - np.median(train.y))))


def _words(examples: Examples) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    targets = examples.x[:, 1:]
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = targets[targets >= _SPECIAL].astype(np.int64)
    return found


def _average(scores: npt.NDArray[Any]) -> float:
    if not len(scores):
        raise TrainingError("utility cannot be measured: the test examples hold nothing to predict")
    return float(scores.mean(dtype=np.float64))


def centralised(model: Model, examples: Examples, settings: FederationPlan, seed: int) -> Params:
    """Train on all users' data centrally, with the clients' own step and as many epochs as the federation made.

    This is what the clients could have reached by pooling their data, from the same initial weights.
    """
    passes = max(1, round(settings.rounds * settings.fraction * settings.epochs))
    start = initial(model, seed)
    engine = Embedded(
        model, task_of(examples), replace(settings, epochs=passes), Pool.of([examples], ["of everyone's data"])
    )
    with one_thread():
        moves = engine.updates(start, [0], lambda stage, _: rng_for(seed, "centralised", stage))
    end = {name: start[name] + moves[name][0].numpy() for name in start}
    if not all(np.isfinite(values).all() for values in end.values()):
        raise TrainingError(
            f"centralised training diverged with lr {settings.lr:g}: try a lower lr, clip = 1.0, or centralised = false"
            "   ([federation] in the plan)"
        )
    return end
