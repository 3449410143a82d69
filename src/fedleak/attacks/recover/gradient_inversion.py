"""Gradient inversion: the examples whose local training, repeated step by step, gives a client's update.

Zhu et al. (2019) match gradients; Geiping et al. (2020) match their direction and penalise total variation; Dimitrov et
al. (2022) unroll the local steps of FedAvg. Here every example of a client has a place of its own, with the label
counts that the update shows, and all clients of a round are searched for together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.reconstruct.optim import adam
from fedleak.attacks.reconstruct.representatives import cut_updates, total_variation
from fedleak.attacks.shadow import model_of, settings
from fedleak.core import Capability, FloatArray, IntArray, Observation, Params, Task, is_buffers
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread, tensors
from fedleak.federation.model import Model, Tensors
from fedleak.games.game import Predictions, Questions
from fedleak.games.recover import ExampleQuestions
from fedleak.lazy import functional as F
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["GradientInversion", "imitated", "label_counts"]

_POWER = 1.25  # of the total variation


@dataclass(frozen=True, kw_only=True)
class GradientInversion:
    """Search for examples whose local steps, unrolled over mini-batches, give the client's update.

    In which order a client sees its examples is not known; places are exchangeable, so any order will do where a batch
    holds all of them, and a restart deals the labels out to the batches anew.
    """

    name: ClassVar[str] = "gradient-inversion"
    summary: ClassVar[str] = (
        "Searches for one image per training example so that training on them gives a client's update (gradient "
        "inversion, unrolled over local steps)."
    )
    game: ClassVar[str] = "recover"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES | Observation.SIZES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.CLASSIFY,)

    iterations: Annotated[int, Meta(ge=1, description="steps of the search")] = 1000
    step: Annotated[float, Meta(gt=0, description="step of Adam, in pixel values; it decreases to 0")] = 0.05
    variation: Annotated[float, Meta(ge=0, description="weight of the total variation")] = 1e-6
    distance: Annotated[
        Literal["cosine", "euclidean"],
        Meta(description="compare updates by their angle, or by their distance relative to the update's length"),
    ] = "cosine"
    restarts: Annotated[int, Meta(ge=1, description="searches from other noise; the nearest update wins")] = 1

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Clients with as many examples together."""
        assert isinstance(questions, ExampleQuestions)
        plan, model = settings(view), model_of(view)
        if plan.optimizer != "sgd" or plan.clip is not None:
            raise AttackError(
                "attack 'gradient-inversion' repeats the local steps of plain SGD; set optimizer = \"sgd\" and no clip "
                "in [federation], or choose another attack"
            )
        sizes = view.updates.size
        if sizes is None:
            raise AttackError(
                "attack 'gradient-inversion' must know how many examples a client has, which this run hides; choose "
                "another attack"
            )
        start = view.snapshot(questions.round - 1)
        rows = np.flatnonzero(view.updates.round == questions.round)
        updates = {layer.name: np.asarray(view.updates.layer(layer.name)[rows]) for layer in view.layout}
        counts = label_counts(model, start, updates, sizes[rows], plan, questions)
        images: list[FloatArray] = [np.zeros((0, *questions.shape), dtype=np.float32)] * len(rows)
        groups = [np.flatnonzero(sizes[rows] == size) for size in np.unique(sizes[rows])]
        for done, group in enumerate(groups):
            some = {name: values[group] for name, values in updates.items()}
            found = self._search(model, start, some, counts[group], plan, questions, context)
            for place, client in enumerate(group.tolist()):
                images[client] = found[place]
            context.progress((done + 1) / len(groups))
        claims = np.concatenate(images)[: questions.samples]
        missing = questions.samples - len(claims)
        if missing:
            claims = np.concatenate([claims, np.repeat(questions.public.x.mean(axis=0)[None], missing, axis=0)])
        return np.asarray(claims, dtype=np.float32)

    def _search(
        self,
        model: Model,
        start: Params,
        updates: Params,
        counts: IntArray,
        plan: FederationPlan,
        questions: ExampleQuestions,
        context: AttackContext,
    ) -> FloatArray:
        """The best of all restarts for each client: (clients, places, *shape)."""
        size = int(counts[0].sum())
        shape = (len(counts), size, *questions.shape)
        best, lowest = np.zeros(shape, dtype=np.float32), np.full(len(counts), np.inf)
        for _ in range(self.restarts):
            labels = np.stack([context.rng.permutation(np.repeat(np.arange(len(row)), row)) for row in counts])
            problem = _Problem(model, start, updates, labels, plan, self, shape)
            noise = context.rng.random(shape, dtype=np.float32).reshape(len(counts), -1)
            with one_thread():
                found = adam(problem, torch.from_numpy(noise), self.iterations, self.step)
                error = problem.errors(found.view(shape).requires_grad_()).detach().numpy()
            better = error < lowest
            best[better] = found.view(shape).numpy()[better]
            lowest = np.where(better, error, lowest)
        return best


class _Problem:
    """How far the imitated updates of some clients are from those that they sent, and its gradient."""

    def __init__(
        self,
        model: Model,
        start: Params,
        updates: Params,
        labels: IntArray,
        plan: FederationPlan,
        how: GradientInversion,
        shape: tuple[int, ...],
    ) -> None:
        self.model, self.plan, self.how, self.shape = model, plan, how, shape
        self.wanted = cut_updates(model, updates)
        self.length = torch.stack([u.flatten(1).square().sum(1) for u in self.wanted.values()]).sum(0).sqrt()
        self.before = {
            key: w.expand(shape[0], *w.shape[1:]).clone().requires_grad_() for key, w in tensors(model, start).items()
        }
        self.labels = torch.from_numpy(labels)

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        images = x.detach().view(self.shape).requires_grad_()
        values = self.errors(images) + self.how.variation * total_variation(images, _POWER).sum(1)
        (gradient,) = torch.autograd.grad(values.sum(), images)
        return values.detach(), gradient.flatten(1)

    def errors(self, images: torch.Tensor) -> torch.Tensor:
        """The distance of each client's update from that of its images; 0 where they are the same."""
        made = imitated(self.model, self.before, images, self.labels, self.plan, graph=True)
        pairs = [(self.wanted[key].flatten(1), made[key].flatten(1)) for key in self.wanted]
        tiny = self.length.clamp(min=1e-20)
        if self.how.distance == "euclidean":
            apart = torch.stack([(u - m).square().sum(1) for u, m in pairs]).sum(0)
            return (apart + 1e-20).sqrt() / tiny
        dots = torch.stack([(u * m).sum(1) for u, m in pairs]).sum(0)
        squares = torch.stack([m.square().sum(1) for _, m in pairs]).sum(0)
        cosine = dots / (tiny * squares.clamp(min=1e-20).sqrt())
        return (2 - 2 * cosine).clamp(min=1e-12).sqrt()


def imitated(
    model: Model, before: Tensors, images: torch.Tensor, labels: torch.Tensor, plan: FederationPlan, *, graph: bool
) -> Mapping[str, torch.Tensor]:
    """What clients would send that train on these images, in this order, batch by batch and epoch by epoch.

    With `graph`, it can be differentiated with respect to the images.
    """
    now = dict(before)
    trained = [key for key in now if not is_buffers(key)]
    for _ in range(plan.epochs):
        for first in range(0, images.shape[1], plan.batch):
            part = slice(first, first + plan.batch)
            outputs = model.forward(now, images[:, part])
            loss = F.cross_entropy(outputs.flatten(0, 1), labels[:, part].flatten(), reduction="sum")
            # The sum over clients of the mean over a batch: each client's own gradient.
            gradients = torch.autograd.grad(
                loss / labels[:, part].shape[1], [now[key] for key in trained], create_graph=graph
            )
            now |= {key: now[key] - plan.lr * g for key, g in zip(trained, gradients, strict=True)}
            if not graph:
                now = {key: w.detach().requires_grad_() for key, w in now.items()}
    return {key: now[key] - before[key] for key in trained}


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
    examples less the probability that the model expects of it (Zhao et al., 2020), which public images show.
    """
    if questions.labels:
        return np.asarray(questions.labels, dtype=np.int64)
    last = model.layout[-1]
    if "bias" not in dict(last.tensors):
        raise AttackError(
            f"the last layer '{last.name}' has no bias, so an update does not say which labels it was trained on; set "
            'labels = "known" in [[game]] recover, or choose a model whose last layer has a bias'
        )
    with one_thread(), torch.no_grad():
        shown = torch.from_numpy(np.asarray(questions.public.x[:500], dtype=np.float32))[None]
        expected = model.forward(tensors(model, start), shown)[0].softmax(dim=1).mean(dim=0).numpy()
    steps = plan.epochs * -(-sizes // plan.batch)
    moved = np.asarray(updates[last.name][:, last.span("bias")], dtype=np.float64)
    shares = np.maximum(moved / (plan.lr * steps[:, None]) + expected, 0)[:, : questions.classes]
    return np.stack([_whole(row, int(size)) for row, size in zip(shares, sizes, strict=True)])


def _whole(shares: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]], total: int) -> IntArray:
    """Whole numbers that add up to a total, in proportion (largest remainders)."""
    wanted = np.asarray(shares, dtype=np.float64)
    wanted = total * (wanted / wanted.sum() if wanted.sum() > 0 else np.full(len(wanted), 1 / len(wanted)))
    found = np.floor(wanted).astype(np.int64)
    found[np.argsort(found - wanted, kind="stable")[: total - int(found.sum())]] += 1
    return found
