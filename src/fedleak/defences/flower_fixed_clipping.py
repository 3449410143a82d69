"""Flower's wrappers for central differential privacy with fixed clipping, on either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Params, is_buffers
from fedleak.defences.clip import clipped
from fedleak.defences.dp_fedavg import DpFedAvg, noised
from fedleak.federation.hooks import Added, Defence
from fedleak.federation.privacy import Statement, Training

__all__ = ["FlowerClientSideFixedClipping", "FlowerServerSideFixedClipping"]


@dataclass(frozen=True, kw_only=True)
class _FixedClipping(Defence):
    """What both sides have in common: the noise, which is added to the mean after the updates were clipped."""

    no_buffers: ClassVar[str] = DpFedAvg.no_buffers

    noise_multiplier: Annotated[
        float, Meta(gt=0, description="as in Flower, which recommends 1 and more; has no default there")
    ]
    clipping_norm: Annotated[float, Meta(gt=0, description="largest norm of an update; has no default in Flower")]
    num_sampled_clients: (
        Annotated[
            int,
            Meta(ge=1, description="by which Flower divides the noise; as many as are selected in a round if absent"),
        ]
        | None
    ) = None
    delta: (
        Annotated[float, Meta(gt=0, lt=1, description="delta of the statement; 1 / (10 clients) if absent")] | None
    ) = None

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        """Add noise for equal shares, whatever the shares are."""
        if not len(shares):
            return aggregate
        return noised(aggregate, self.noise_multiplier * self.clipping_norm / self._divisor(len(shares)), rng)

    def _divisor(self, present: int) -> int:
        return present if self.num_sampled_clients is None else self.num_sampled_clients

    def _as_dp_fedavg(self, training: Training) -> DpFedAvg:
        """The same noise in units of what one of the clients that are there can change."""
        share = training.selected / self._divisor(training.selected)
        return DpFedAvg(noise=self.noise_multiplier * share, clip=self.clipping_norm, where="server", delta=self.delta)

    def privacy(self, training: Training) -> Statement:
        """As for dp-fedavg on the server, whose mechanism it is; nothing with weights by the number of examples."""
        if not training.equal:
            return Statement.none(
                self.name,
                "Flower's FedAvg weighs updates by the number of examples, and its noise covers only a client that "
                'counts no more than an equal share; set weighting = "equal" in [federation]',
            )
        return replace(self._as_dp_fedavg(training).privacy(training), defence=self.name)

    def spent(
        self, training: Training, examples: int, rounds: Sequence[int], delta: float, *, tight: bool
    ) -> list[float]:
        """As for dp-fedavg."""
        return self._as_dp_fedavg(training).spent(training, examples, rounds, delta, tight=tight)

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """As for dp-fedavg on the server."""
        return DpFedAvg(noise=1.0, where="server").clashes(before, after)


@dataclass(frozen=True, kw_only=True)
class FlowerClientSideFixedClipping(_FixedClipping):
    """Flower's DifferentialPrivacyClientSideFixedClipping with fixedclipping_mod (McMahan et al., 2018)."""

    name: ClassVar[str] = "flower-client-side-fixed-clipping"
    summary: ClassVar[str] = (
        "Clips each client's update on the client and adds Gaussian noise to the mean on the server, as Flower's "
        "DifferentialPrivacyClientSideFixedClipping does."
    )

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Shorten, if it is too long."""
        return clipped(update, self.clipping_norm)


@dataclass(frozen=True, kw_only=True)
class FlowerServerSideFixedClipping(_FixedClipping):
    """Flower's DifferentialPrivacyServerSideFixedClipping: the server gets raw updates (McMahan et al., 2018)."""

    name: ClassVar[str] = "flower-server-side-fixed-clipping"
    summary: ClassVar[str] = (
        "Clips each client's update on the server, which has received it whole, and adds Gaussian noise to the mean, "
        "as Flower's DifferentialPrivacyServerSideFixedClipping does."
    )

    def on_aggregation(self, updates: Params, shares: FloatArray, rng: np.random.Generator) -> Added:
        """The mean of shortened updates; the server has seen the long ones."""
        weights = {layer: rows for layer, rows in updates.items() if not is_buffers(layer)}
        aggregate: dict[str, FloatArray] = {layer: shares @ rows for layer, rows in updates.items()}
        short = [
            clipped({layer: rows[n] for layer, rows in weights.items()}, self.clipping_norm) for n in range(len(shares))
        ]
        for layer in weights:
            if short:
                aggregate[layer] = shares @ np.stack([one[layer] for one in short])
        return Added(updates, aggregate, np.ones(len(shares), dtype=np.bool_))

    def privacy(self, training: Training) -> Statement:
        """The server has to be trusted with raw updates, too."""
        given = _FixedClipping.privacy(self, training)
        if given.epsilon is None:
            return given
        return replace(given, trusted="the server, which receives the raw updates, clips them and adds the noise")
