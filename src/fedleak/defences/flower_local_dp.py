"""Flower's modifier for local differential privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import Params
from fedleak.defences.clip import clipped
from fedleak.defences.dp_fedavg import DpFedAvg, noised
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, Training

__all__ = ["FlowerLocalDp"]


@dataclass(frozen=True, kw_only=True)
class FlowerLocalDp(Defence):
    """Flower's LocalDpMod: clip an update and add the noise of the classical Gaussian mechanism (Dwork and Roth, 2014).

    Its `epsilon` is what the formula for the noise is fed with, for one round. The formula holds below 1 only, and only
    if `sensitivity` is what a client can change, which is twice the clipping norm: from one end to the other.
    """

    name: ClassVar[str] = "flower-local-dp"
    summary: ClassVar[str] = (
        "Clips each client's update and adds Gaussian noise on the client, as Flower's LocalDpMod does."
    )
    no_buffers: ClassVar[str] = DpFedAvg.no_buffers

    clipping_norm: Annotated[float, Meta(gt=0, description="largest norm of an update")]
    sensitivity: Annotated[
        float, Meta(gt=0, description="what the noise is in proportion to; has no default in Flower")
    ]
    epsilon: Annotated[float, Meta(gt=0, description="what the noise is in inverse proportion to, for one round")]
    delta: Annotated[float, Meta(gt=0, lt=1, description="of the formula for the noise, and of the statement")]

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise."""
        return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Shorten, if it is too long, and add noise."""
        return noised(clipped(update, self.clipping_norm), self.sigma, rng)

    @property
    def _as_dp_fedavg(self) -> DpFedAvg:
        """The same noise in units of the clipping norm."""
        return DpFedAvg(noise=self.sigma / self.clipping_norm, clip=self.clipping_norm, where="local", delta=self.delta)

    def privacy(self, training: Training) -> Statement:
        """By the noise that is really added, exactly; not by the epsilon that the modifier is given."""
        given = replace(self._as_dp_fedavg.privacy(training), defence=self.name)
        if given.epsilon is None:
            return given
        meant = f"the modifier is given epsilon {self.epsilon:g} for a round"
        return replace(given, how=f"{given.how}; {meant}, by a formula that holds below 1 and for its sensitivity only")

    def spent(
        self, training: Training, examples: int, rounds: Sequence[int], delta: float, *, tight: bool
    ) -> list[float]:
        """As for dp-fedavg."""
        return self._as_dp_fedavg.spent(training, examples, rounds, delta, tight=tight)
