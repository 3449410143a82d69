"""The hooks at which defences (and, declared in the plan, tampering) act on a federation.

- on_background, once: the public examples, before clients draw from them
- on_data, once per client before the first round: what the client trains on
- on_model, once: the model that every client trains
- on_participation, every round: which of the selected clients take part
- on_loss, every local step: what the clients computed together minimise
- on_examples, every local step: how much each example counts, given the norm of its gradient
- on_sum, every local step: the sum of these gradients, before it is divided by the size of a batch
- on_step, every local step: the gradients of the clients computed together
- on_update, every update, on the client, before it is sent
- on_channel, every round: which updates reach the server, and in which form
- on_aggregation, every round: how the updates are summed, and what the server sees of each
- on_aggregate, every round: the mean that the server adds to the model
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from fedleak.core import FloatArray, Observation, Params
from fedleak.federation.model import ActivationHooks, Model, Tensors
from fedleak.federation.privacy import Statement, Training
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["Defence", "Added", "Loss", "hidden"]

Loss: TypeAlias = Callable[[ActivationHooks], torch.Tensor]
"""The sum of the clients' losses, where something is done to what flows through the model."""


@dataclass(frozen=True, slots=True)
class Added:
    """The updates of a round, added up."""

    seen: Params  # layer -> (clients, size): what the server sees of each
    aggregate: Params  # the weighted mean
    arrived: npt.NDArray[np.bool_]  # by client; whoever did not arrive is in neither


def hidden(defences: Sequence[Defence]) -> Observation:
    """What no adversary sees of a run with these defences."""
    return functools.reduce(operator.or_, (defence.hides for defence in defences), Observation.NONE)


class Defence:
    """Base of every defence: each hook leaves things as they are; a defence overrides the ones it needs.

    A defence is a frozen dataclass of its settings. Randomness is passed in, one generator per client, so that a
    resumed run draws the same numbers.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence with a third-person verb: what the client or the server does differently
    needs_background: ClassVar[bool] = False
    places: ClassVar[tuple[str, ...]] = ()  # of the model, at which it acts; a model without them is rejected
    hides: ClassVar[Observation] = Observation.NONE  # what no adversary sees of a run with this defence
    poisson: ClassVar[bool] = False  # batches are drawn by Poisson sampling instead of a shuffled pass
    no_epsilon: ClassVar[str] = "it neither bounds sensitivity nor adds calibrated noise"

    def on_background(
        self, background: Examples, model: Model, settings: FederationPlan, rng: np.random.Generator
    ) -> Examples:
        """Prepare the background, once for all clients; `on_data` is given what is returned."""
        return background

    def on_data(self, data: Examples, background: Examples | None, rng: np.random.Generator) -> Examples:
        """Change what a client trains on."""
        return data

    def on_model(self, model: Model) -> Model:
        """Change the model that every client trains."""
        return model

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        """Change which of the selected clients (by index) take part; `past` says who did in the rounds before."""
        return selected

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """Change what a local step minimises; one generator for each client."""
        return loss

    def on_examples(self, norms: torch.Tensor) -> torch.Tensor:
        """Weigh the gradient of each example (clients, examples) by its norm, before they are added up."""
        return torch.ones_like(norms)

    def on_sum(self, gradients: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Change the sum of the weighted gradients, for the clients computed together; asked after `on_examples`."""
        return gradients

    def on_step(self, gradients: Tensors, weights: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Change the gradients of one local step; the leading axis runs over the clients, one generator each."""
        return gradients

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Change one client's update on the client."""
        return update

    def on_channel(self, updates: Params, rng: np.random.Generator) -> Params:
        """Change what the server receives of a round: one row per client in, one row per client out."""
        return updates

    def on_aggregation(self, updates: Params, shares: FloatArray, rng: np.random.Generator) -> Added:
        """Add the updates up, each weighted by its share; one defence of a run at most can do this."""
        raise NotImplementedError

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        """Change the mean by which the server moves; `shares` is what each update counted in it."""
        return aggregate

    def most_rounds(self, rounds: int) -> int:
        """In how many of so many rounds a client takes part at most."""
        return rounds

    def privacy(self, training: Training) -> Statement:
        """The differential privacy that this defence gives in a run; without epsilon, and why, where it gives none."""
        return Statement.none(self.name, self.no_epsilon)

    def clashes(self, before: Sequence[Any], after: Sequence[Any]) -> str | None:
        """Why this defence cannot be combined with the others, which act before and after it; None if it can."""
        return None

    def overrides(self, hook: str) -> bool:
        """Whether this defence acts at a hook; the engine skips hooks that nobody uses."""
        return getattr(type(self), hook) is not getattr(Defence, hook)
