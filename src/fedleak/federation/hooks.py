"""The hooks at which a defence acts on a federation, in the order in which a round calls them.

- on_data, once before the first round: what every client trains on, all defending clients at a time, with the public
  examples. Return as many data sets as were given, and leave none empty.
- on_participation, every round: which of the selected clients take part. A resumed run asks again for earlier rounds,
  so the answer must follow from the arguments alone.
- on_loss, every local step: what the clients that are computed together minimise. Name the `places` of the model that
  are touched; the loss may be called more than once, which costs as many passes.
- on_step, every local step: the gradients, of the batch or of each example; the leading axis runs over clients. The
  plan's `clip` and the optimiser come after it.
- on_update, every update, on its client: what is sent. Return the layers and sizes that were given.
- on_aggregation, every round: how the updates are added up, and what the server sees of each while it does. One defence
  of a run at most can do it.
- on_aggregate, every round: the mean by which the server moves. The updates are recorded as they were before it.

Several defences act one after another in the order of the plan, each on what the one before it returned. The first five
act on clients that defend themselves; shadow clients of an adversary do so only in the adaptive audit. Randomness is
passed in, by defence, round and client, so that a run repeats itself whether resumed or not and on any number of
workers: draw from nothing else, keep no state, and change no argument in place.

What an adversary does to a run goes through `fedleak.federation.tampering`, which says why it is no hook.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, Observation, Params
from fedleak.federation.engines.local_step import LocalStep
from fedleak.federation.model import ActivationHooks, Model, Tensors
from fedleak.federation.privacy import Statement, Training
from fedleak.lazy import torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["Defence", "PublicData", "Added", "Loss", "hidden"]

Loss: TypeAlias = "Callable[[ActivationHooks], torch.Tensor]"
"""The sum of the clients' losses, where something is done to what flows through the model."""


@dataclass(frozen=True, slots=True)
class PublicData:
    """The background: public examples, and what anybody needs to make something of them once for all clients."""

    examples: Examples
    model: Model
    settings: FederationPlan
    rng: np.random.Generator


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

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        """Change what each client trains on; one generator for each. `public` is None where there is no background."""
        return data

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        """Change which of the selected clients (by index) take part; `past` says who did in the rounds before."""
        return selected

    def on_loss(self, loss: Loss, rngs: Sequence[np.random.Generator]) -> Loss:
        """Change what a local step minimises; one generator for each client."""
        return loss

    def on_step(self, step: LocalStep, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Change the gradients of one local step; the leading axis runs over the clients, one generator each."""
        return step.gradients

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Change one client's update on the client."""
        return update

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

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """Why this defence cannot be combined with the others, which act before and after it; None if it can."""
        return None

    def overrides(self, hook: str) -> bool:
        """Whether this defence acts at a hook; the engine skips hooks that nobody uses."""
        return getattr(type(self), hook) is not getattr(Defence, hook)
