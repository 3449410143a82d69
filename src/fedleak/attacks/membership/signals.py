"""How well models know records: their confidence, and the gradients of single records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, Params, Task, is_buffers
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.loss import inputs, total
from fedleak.federation.model import Model
from fedleak.games.game import Questions
from fedleak.games.membership import MembershipQuestions
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.population.population import Examples

__all__ = ["asked", "confidence", "log_probability", "gradients", "stacked", "flat"]

_CELLS = 3_000_000  # numbers of the records that are shown to models at once, and of gradients that are held


def asked(questions: Questions) -> MembershipQuestions:
    """The questions of this game."""
    if not isinstance(questions, MembershipQuestions):
        raise AttackError("this attack answers the questions of the game 'membership' only")
    return questions


def stacked(models: Mapping[str, npt.NDArray[np.float32]], model: Model) -> dict[str, torch.Tensor]:
    """Weights of several models, layer -> (models, size), as tensors with a leading axis for them."""
    return {
        f"{layer.name}.{tensor}": torch.from_numpy(
            np.ascontiguousarray(models[layer.name][:, layer.span(tensor)])
        ).view(-1, *shape)
        for layer in model.layout
        for tensor, shape in layer.tensors
    }


def confidence(
    model: Model, task: Task, models: Mapping[str, npt.NDArray[np.float32]], records: Examples
) -> npt.NDArray[np.float64]:
    """How sure models are of the labels of records, (models, records): higher is surer.

    Of classes, the log-odds of the true one, which are closer to a normal distribution than its probability (Carlini et
    al., 2022, section IV-C). Otherwise the negative loss.
    """
    count = len(next(iter(models.values())))
    found = np.empty((count, len(records)))
    width = int(np.prod(records.x.shape[1:])) * 8
    step = max(1, _CELLS // max(1, width * min(count, model.group)))
    with torch.no_grad(), one_thread():
        for first in range(0, count, model.group):
            part = stacked({name: rows[first : first + model.group] for name, rows in models.items()}, model)
            together = len(next(iter(part.values())))
            for start in range(0, len(records), step):
                batch = records.take(slice(start, start + step))
                x = torch.from_numpy(np.ascontiguousarray(batch.x))
                x = x.expand(together, *x.shape)
                outputs = model.forward(part, inputs(task, x))
                y = None if batch.y is None else torch.from_numpy(np.ascontiguousarray(batch.y))
                found[first : first + together, start : start + len(batch)] = _sure(task, outputs, x, y).numpy()
    return np.nan_to_num(found, nan=0.0, posinf=1e4, neginf=-1e4)


def _sure(task: Task, outputs: torch.Tensor, x: torch.Tensor, y: torch.Tensor | None) -> torch.Tensor:
    if task is Task.NEXT_TOKEN:
        targets = x[..., 1:]
        there = (targets != 0).float()
        found = -F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(there.shape)
        return (found * there).sum(-1) / there.sum(-1).clamp(min=1)
    assert y is not None
    if task is Task.CLASSIFY:
        at = y.view(1, -1, 1).expand(len(outputs), -1, 1)
        mine = outputs.gather(2, at).squeeze(2)
        others = outputs.scatter(2, at, -torch.inf)
        return mine - torch.logsumexp(others, dim=2)
    if task is Task.MULTI_LABEL:
        wanted = y.float().expand(len(outputs), *y.shape)
        return -F.binary_cross_entropy_with_logits(outputs, wanted, reduction="none").mean(-1)
    return -(outputs.squeeze(-1) - y.view(1, -1)).square()


def log_probability(task: Task, sure: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The logarithm of the probability that a model gives to a label."""
    return -np.logaddexp(0.0, -sure) if task is Task.CLASSIFY else np.minimum(sure, 0.0)


def gradients(model: Model, task: Task, weights: Params, records: Examples) -> Iterator[tuple[slice, FloatArray]]:
    """The gradients of the losses of single records, some records at a time: (records, parameters)."""
    before = tensors(model, weights)
    size = sum(layer.size for layer in model.layout)
    step = max(1, _CELLS // size)
    for start in range(0, len(records), step):
        batch = records.take(slice(start, start + step))
        n = len(batch)
        leaves = {key: w.expand(n, *w.shape[1:]).clone() for key, w in before.items()}
        trained = [key for key in leaves if not is_buffers(key)]
        for key in trained:
            leaves[key].requires_grad_()
        x = torch.from_numpy(np.ascontiguousarray(batch.x)).unsqueeze(1)  # every record a client of its own
        y = None if batch.y is None else torch.from_numpy(np.ascontiguousarray(batch.y))
        with one_thread():
            loss = total(task, model.forward(leaves, inputs(task, x)), x, y, torch.ones(n, 1))
            found = torch.autograd.grad(
                loss, [leaves[key] for key in trained], allow_unused=True, materialize_grads=True
            )
        yield slice(start, start + n), torch.cat([g.flatten(1) for g in found], dim=1).numpy()


def flat(model: Model, rows: Mapping[str, npt.NDArray[np.float32]]) -> FloatArray:
    """Layers as one row for each model or update, in the order of `gradients`: without buffers."""
    return np.concatenate([rows[layer.name] for layer in model.layout if not is_buffers(layer.name)], axis=1)
