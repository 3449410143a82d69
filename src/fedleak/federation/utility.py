"""How good the trained model is, beside the best constant answer and beside training on everyone's data at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from fedleak.core import Params, Task, derive
from fedleak.errors import TrainingError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread, tensors
from fedleak.federation.federation import initial
from fedleak.federation.loss import inputs, task_of
from fedleak.federation.model import Model
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["Metric", "METRICS", "evaluate", "chance", "centralised"]

_SPECIAL = 2  # tokens 0 (padding) and 1 (unknown): nobody wants them predicted
_AT_ONCE = 256  # examples: bounds the memory of an evaluation


@dataclass(frozen=True, slots=True)
class Metric:
    """What utility is called, and which way is better."""

    name: str
    higher_is_better: bool


METRICS: Mapping[Task, Metric] = {
    Task.CLASSIFY: Metric("accuracy", True),
    Task.NEXT_TOKEN: Metric("top5", True),
    Task.REGRESS: Metric("mae", False),
}


def evaluate(model: Model, weights: Params, test: Examples, task: Task) -> float:
    """Measure a model on held-out examples, by the task's metric."""
    values = tensors(model, weights)
    pool = Pool.of([test], ["test"])
    scores = []
    with one_thread(), torch.inference_mode():
        for start in range(0, len(test), _AT_ONCE):
            x = pool.x[start : start + _AT_ONCE]
            outputs = model.forward(values, inputs(task, x).unsqueeze(0)).squeeze(0)
            if task is Task.NEXT_TOKEN:
                targets = x[:, 1:]
                wanted = targets >= _SPECIAL
                best = outputs[wanted][:, _SPECIAL:].topk(min(5, outputs.shape[-1] - _SPECIAL)).indices + _SPECIAL
                scores.append((best == targets[wanted].unsqueeze(1)).any(1).double())
            else:
                y = _labels(pool, start)
                scores.append(
                    (outputs.argmax(1) == y).double()
                    if task is Task.CLASSIFY
                    else (outputs.flatten() - y).abs().double()
                )
    return _average(torch.cat(scores))


def _labels(pool: Pool, start: int) -> torch.Tensor:
    if pool.y is None:
        raise TrainingError("utility cannot be measured: the test examples have no labels")
    return pool.y[start : start + _AT_ONCE]


def chance(train: Examples, test: Examples, task: Task) -> float:
    """The best answer that never looks at the input: the commonest class, the five commonest words, the median."""
    if task is Task.NEXT_TOKEN:
        seen, wanted = (_words(examples) for examples in (train, test))
        common = np.argsort(-np.bincount(seen), kind="stable")[:5]
        return _average(torch.from_numpy(np.isin(wanted, common)).double())
    if train.y is None or test.y is None:
        raise TrainingError("chance cannot be told: the examples have no labels")
    if task is Task.CLASSIFY:
        return float(np.mean(test.y == np.bincount(train.y).argmax()))
    return float(np.mean(np.abs(test.y - np.median(train.y))))


def _words(examples: Examples) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    targets = examples.x[:, 1:]
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = targets[targets >= _SPECIAL].astype(np.int64)
    return found


def _average(scores: torch.Tensor) -> float:
    if not len(scores):
        raise TrainingError("utility cannot be measured: the test examples hold nothing to predict")
    return float(scores.mean())


def centralised(model: Model, examples: Examples, settings: FederationPlan, seed: int) -> Params:
    """Train on everyone's data in one place, with the client's own step and as many passes as the federation made.

    It is what the devices could have reached by giving up their data, from the same initial weights.
    """
    passes = max(1, round(settings.rounds * settings.fraction * settings.epochs))
    start = initial(model, seed)
    engine = Embedded(
        model, task_of(examples), replace(settings, epochs=passes), Pool.of([examples], ["of everyone's data"])
    )
    with one_thread():
        moves = engine.updates(start, [0], lambda stage, _: derive(seed, "centralised", stage))
    end = {name: start[name] + moves[name][0].numpy() for name in start}
    if not all(np.isfinite(values).all() for values in end.values()):
        raise TrainingError(
            f"centralised training diverged with lr {settings.lr:g}: try a lower lr, clip = 1.0, or centralised = false"
            "   ([federation] in the plan)"
        )
    return end
