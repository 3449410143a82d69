"""The hooks at which a defence acts on a federation, in the order in which a round calls them.

- on_data, once before the first round: what every client trains on, for all defending clients at once, with the public
  examples. Return one non-empty data set for each given one.
- on_participation, every round: which of the selected clients take part. A resumed run repeats the call for earlier
  rounds, so the result must depend only on the arguments.
- on_loss, every local step: what the clients computed together minimise. List the `places` of the model that it acts
  on. The loss may be called more than once; each call costs a pass.
- on_step, every local step: the gradients, of the batch or of each example; the leading axis runs over clients. The
  plan's `clip` and the optimiser are applied afterwards.
- on_update, every update, on the client, before it is sent. Return the same layers and sizes.
- on_aggregation, every round: how the updates are summed, and what the server sees of each. At most one defence of a
  run can override it.
- on_aggregate, every round: the mean that the server adds to the model. Updates are recorded before this hook.

Neither on_update nor on_aggregate gets the layers of buffers (`<layer>:buffers`, such as the running mean of
BatchNorm), which are sent and averaged as they are.

Several defences act in the order of the plan, each on the result of the one before. The first five hooks act on clients
that apply the defence; an adversary's shadow clients apply it only where utility is measured. Randomness is passed in,
per defence, round and client, so that a run is reproducible, resumed or not, on any number of workers: use no other
randomness, keep no state, and change no argument in place.

Active attacks on a run go through `fedleak.federation.tampering`, which explains why they are not hooks.
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
"""The sum of the clients' losses, where a defence acts on the activations of the model."""


@dataclass(frozen=True, slots=True)
class PublicData:
    """The background: public examples, and what is needed to process them once for all clients."""

    examples: Examples
    model: Model
    settings: FederationPlan
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Added:
    """The sum of the updates of a round."""

    seen: Params  # layer -> (clients, size): what the server sees of each
    aggregate: Params  # the weighted mean
    arrived: npt.NDArray[np.bool_]  # by client; an update that did not arrive is in neither


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
    # Why it cannot be used with a model that sends buffers; empty where it can.
    no_buffers: ClassVar[str] = ""
    no_epsilon: ClassVar[str] = "it neither bounds sensitivity nor adds calibrated noise"

    def on_data(
        self, data: Sequence[Examples], public: PublicData | None, rngs: Sequence[np.random.Generator]
    ) -> Sequence[Examples]:
        """Change what each client trains on; one generator for each. `public` is None where there is no background."""
        return data

    def on_participation(
        self, selected: Sequence[int], past: Sequence[Sequence[int]], rng: np.random.Generator
    ) -> Sequence[int]:
        """Change which of the selected clients (by index) take part; `past` has those of earlier rounds."""
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
        """Sum the updates, each weighted by its share; at most one defence of a run can do this."""
        raise NotImplementedError

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        """Change the mean that the server adds to the model; `shares` is the weight of each update in it."""
        return aggregate

    def most_rounds(self, rounds: int) -> int:
        """The most rounds, out of this many, in which a client takes part."""
        return rounds

    def privacy(self, training: Training) -> Statement:
        """The differential privacy that this defence gives in a run; without epsilon, and why, where it gives none."""
        return Statement.none(self.name, self.no_epsilon)

    def spent(
        self, training: Training, examples: int, rounds: Sequence[int], delta: float, *, tight: bool
    ) -> list[float] | None:
        """Epsilon of one client after each of these numbers of rounds with it, for the ledger; never too small.

        With `tight` by the accountant of the statement, otherwise by a fast one. None, where one client cannot be told
        from another: then each has spent what is stated for the busiest.
        """
        return None

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """Why this defence cannot be combined with the others, which act before and after it; None if it can."""
        return None

    @property
    def changes_mean(self) -> bool:
        """Whether the mean of a round is not, or not only, the weighted mean of the updates that the server sees."""
        return self.overrides("on_aggregation") or self.overrides("on_aggregate")

    def overrides(self, hook: str) -> bool:
        """Whether this defence acts at a hook; the engine skips hooks that are not overridden."""
        return getattr(type(self), hook) is not getattr(Defence, hook)
