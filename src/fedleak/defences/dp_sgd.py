"""Differentially private stochastic gradient descent (DP-SGD) on the client, at the level of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.federation.accountants import Bound, default_delta, poisson, poisson_over_time, worst_poisson
from fedleak.federation.engines.batches import steps_of
from fedleak.federation.engines.local_step import LocalStep
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Tensors
from fedleak.federation.privacy import Statement, Training
from fedleak.lazy import torch

__all__ = ["DpSgd"]


@dataclass(frozen=True, kw_only=True)
class DpSgd(Defence):
    """Clip the gradient of each example, add them up, and add noise, in every local step (Abadi et al., 2016).

    Batches are drawn by giving every example the same chance, independently, because that is what the accountant
    counts; the sum is divided by the batch size of the plan, not by how many happened to be drawn.
    """

    name: ClassVar[str] = "dp-sgd"
    summary: ClassVar[str] = "Clips the gradient of every example and adds Gaussian noise to each local step (DP-SGD)."
    poisson: ClassVar[bool] = True
    no_buffers: ClassVar[str] = (
        "BatchNorm mixes the examples of a batch, so no example has a gradient of its own to clip, and its running "
        "statistics are sent without noise"
    )

    noise: Annotated[
        float,
        Meta(
            gt=0,
            description="noise multiplier: standard deviation on the sum of a batch in units of the clip; the paper on "
            "records tries 0.01, 0.1 and 1",
        ),
    ]
    clip: Annotated[float, Meta(gt=0, description="largest norm of the gradient of one example")] = 1.0
    delta: (
        Annotated[
            float, Meta(gt=0, lt=1, description="delta of the statement; 1 / (10 examples of all clients) if absent")
        ]
        | None
    ) = None

    def on_step(self, step: LocalStep, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Clip each example's gradient, add them up, add noise, and divide by the batch size."""
        return step.mean(self.add_noise(step.sum_examples(self.shorten), rngs))

    def shorten(self, norms: torch.Tensor) -> torch.Tensor:
        """How much each gradient counts: those longer than the clip, so much less."""
        return (self.clip / norms.clamp(min=1e-12)).clamp_(max=1.0)

    def add_noise(self, sums: Tensors, rngs: Sequence[np.random.Generator]) -> Tensors:
        """Add noise measured by what one example can add to the sum, from each client's own generator."""
        noisy = {}
        for key, values in sums.items():
            drawn = np.stack([rng.standard_normal(values.shape[1:], dtype=np.float32) for rng in rngs])
            noisy[key] = values + torch.from_numpy(drawn).mul_(self.noise * self.clip)
        return noisy

    def privacy(self, training: Training) -> Statement:
        """At the level of records, for the client that is protected least.

        Of clients that take as many steps, that is the one with fewest examples: it shows each of them most often.
        """
        count = sum(training.sizes)
        delta = default_delta(count) if self.delta is None else self.delta
        fewest: dict[int, int] = {}
        for size in sorted(training.sizes, reverse=True):
            fewest[steps_of(size, training.batch, training.epochs)] = size

        def bound(rounds: int) -> tuple[Bound, int]:
            cases = [(min(1.0, training.batch / size), rounds * steps) for steps, size in fewest.items()]
            found, place = worst_poisson(cases, self.noise, delta)
            return found, list(fewest.values())[place]

        found, size = bound(training.most)
        steps = steps_of(size, training.batch, training.epochs)
        skipped = ", and which updates were left out because they were not finite" if training.skips else ""
        return Statement(
            defence=self.name,
            epsilon=found.epsilon,
            per_round=bound(1)[0].epsilon,
            delta=delta,
            unit="record",
            count=count,
            # Not one record more or less: rate, steps and weight follow from the number of examples.
            adjacency="zero-out, one record of one client contributes nothing",
            against="anyone who sees what a client sends, including the server",
            trusted="nobody but the client itself, which clips and adds the noise",
            sampling=f"Poisson, each example with probability min(1, {training.batch} / number of the client's "
            "examples), independently in every local step; none of clients",
            public=f"how many examples each client has, and who takes part in which round{skipped}",
            composition=f"{training.most * steps} local steps of the client protected least, which has {size} examples "
            f"({steps} steps in each of at most {training.most} rounds); this run only",
            accountant=found.accountant,
            mechanism="Gaussian, on the sum of each local step's clipped gradients",
            noise=self.noise,
            clip=self.clip,
            how=f"Gaussian mechanism on sums of clipped gradients, noise multiplier {self.noise:g}",
        )

    def spent(
        self, training: Training, examples: int, rounds: Sequence[int], delta: float, *, tight: bool
    ) -> list[float]:
        """By the client's own number of examples, which sets how often a record is drawn and in how many steps."""
        rate = min(1.0, training.batch / examples)
        steps = [count * steps_of(examples, training.batch, training.epochs) for count in rounds]
        if tight:
            return [poisson(rate, self.noise, count, delta).epsilon for count in steps]
        return poisson_over_time(rate, self.noise, steps, delta)

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """Clipping needs the gradients of single examples, which are gone once another defence changed the step."""
        early = [other.name for other in before if other.overrides("on_step")]
        return f"'{early[0]}' changes the local step before examples are clipped; write dp-sgd first" if early else None
