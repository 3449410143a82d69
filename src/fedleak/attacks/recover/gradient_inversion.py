"""Gradient inversion: the examples whose local training, repeated step by step, gives a client's update.

Zhu et al. (2019) match gradients; Geiping et al. (2020) match their direction; Dimitrov et al. (2022) unroll the local
steps of FedAvg. Here every example of a client has a place of its own, with the label counts that the update shows, the
mini-batches are searched for along with the images, and steps are those of Gauss-Newton.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.recover.covariance import Covariance, known_images
from fedleak.attacks.recover.gauss_newton import State, steps
from fedleak.attacks.recover.imitation import Imitation
from fedleak.attacks.recover.labels import label_counts
from fedleak.attacks.recover.orders import reorder
from fedleak.attacks.shadow import model_of, settings
from fedleak.core import Capability, FloatArray, IntArray, Observation, Params, Task
from fedleak.errors import AttackError
from fedleak.federation.engines.embedded import one_thread
from fedleak.federation.model import Model
from fedleak.games.game import Predictions, Questions
from fedleak.games.recover import ExampleQuestions
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["GradientInversion"]

_BLOCK = 3  # steps between two searches for the order
_NEAR = 2.0  # times the squared distance that rounding explains: then the search is over
_COARSE = 20  # products of a step while the order is unknown
_GAIN = 0.02  # relative gain of a block below which the search is over
_AGAIN = 1e-6  # damping at least, after the order has changed
_APART = 0.1  # of the standard deviation: places with the same label must not start at the same image
_TOGETHER = 50_000  # pixels that are searched for at once


@dataclass(frozen=True, kw_only=True)
class GradientInversion:
    """Search for examples whose local steps, unrolled over mini-batches, give the client's update.

    In which order a client sees its examples is not known; it is searched for. The search begins at the mean public
    image of each label.
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

    iterations: Annotated[int, Meta(ge=1, description="Gauss-Newton steps of the search, at most")] = 10
    products: Annotated[
        int, Meta(ge=1, description="products with the Jacobian in a step, at most (conjugate gradients)")
    ] = 80
    distance: Annotated[
        Literal["cosine", "euclidean"],
        Meta(
            description="euclidean: compare updates as they are. cosine: by their directions, for updates that are "
            "clipped or scaled"
        ),
    ] = "euclidean"
    images: Annotated[
        Literal["public", "smooth"],
        Meta(
            description="what is known of images: the mean and covariance of the server's public ones, or only that "
            "neighbouring pixels are alike"
        ),
    ] = "public"
    restarts: Annotated[int, Meta(ge=1, description="searches from other images; the nearest update wins")] = 1

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Clients with as many examples together, as far as memory allows."""
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
        groups = [
            part
            for size in np.unique(sizes[rows])
            for part in _parts(np.flatnonzero(sizes[rows] == size), int(size) * int(np.prod(questions.shape)))
        ]
        for done, group in enumerate(groups):
            some = {name: values[group] for name, values in updates.items()}
            found = self.search(model, start, some, counts[group], plan, questions, context)
            for place, client in enumerate(group.tolist()):
                images[client] = found[place]
            context.progress((done + 1) / len(groups))
        claims = np.concatenate(images)[: questions.samples]
        missing = questions.samples - len(claims)
        if missing:
            claims = np.concatenate([claims, np.repeat(questions.public.x.mean(axis=0)[None], missing, axis=0)])
        return np.asarray(claims, dtype=np.float32)

    def search(
        self,
        model: Model,
        start: Params,
        updates: Params,
        counts: IntArray,
        plan: FederationPlan,
        questions: ExampleQuestions,
        context: AttackContext,
        orders: IntArray | None = None,
    ) -> FloatArray:
        """The best of all restarts for each client: (clients, places, *shape).

        With `orders`, (clients, epochs, places), the order in which a client saw its examples is told; places come in
        the order of their labels.
        """
        labels = np.stack([np.repeat(np.arange(len(row)), row) for row in counts])
        clients, places = labels.shape
        best = np.zeros((clients, places, *questions.shape), dtype=np.float32)
        lowest = np.full(clients, np.inf)
        with one_thread():
            means, covariance = known_images(questions, self.images)
            for _ in range(self.restarts):
                drawn = orders
                if drawn is None:
                    drawn = context.rng.permuted(
                        np.broadcast_to(np.arange(places), (clients, plan.epochs, places)).copy(), axis=2
                    )
                problem = Imitation(model, start, updates, labels, drawn.copy(), plan, questions.shape, self.distance)
                noise = covariance.draw(context.rng, clients, places * means.shape[1])
                first = np.clip(means[labels].reshape(clients, -1) + _APART * noise, 0, 1)
                found, error = self._descend(problem, first, covariance, context.rng, told=orders is not None)
                better = error < lowest
                best[better] = found.reshape(best.shape)[better]
                lowest = np.where(better, error, lowest)
        return best

    def _descend(
        self,
        problem: Imitation,
        first: npt.NDArray[np.float64],
        covariance: Covariance,
        rng: np.random.Generator,
        *,
        told: bool,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
        """Gauss-Newton steps from some images, with a better order every few steps."""

        def residual(x: torch.Tensor) -> torch.Tensor:
            return problem.residual(x.view(problem.shape))

        def errors(x: torch.Tensor) -> torch.Tensor:
            return problem.errors(x.view(problem.shape))

        state, left = State.at(torch.from_numpy(first)), float(self.iterations)
        coarse = not told and problem.plan.batch < problem.shape[1]
        while left > 0:
            before, block = state.value, min(_BLOCK, math.ceil(left))
            # Images that fit an order exactly, right or wrong, say nothing about others: look for it before.
            most = min(_COARSE, self.products) if coarse else self.products
            state, left = steps(residual, errors, state, covariance, block, most), left - block * most / self.products
            changed = not told and reorder(problem, state.x.view(problem.shape), rng)
            if changed:
                state.damping = state.damping.clamp(min=_AGAIN)
            elif not coarse and bool(
                ((state.value < _NEAR * problem.rounding) | (state.value > before * (1 - _GAIN))).all()
            ):
                break
            coarse = coarse and changed
        return state.x.float().numpy(), errors(state.x).numpy()


def _parts(group: IntArray, pixels: int) -> list[IntArray]:
    return np.array_split(group, -(-len(group) // max(1, _TOGETHER // pixels)))
