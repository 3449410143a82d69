"""Differentially private federated averaging (DP-FedAvg), at the level of clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fedleak.core import FloatArray, Params
from fedleak.defences.clip import clipped
from fedleak.federation.accountants import default_delta, gaussian, without_replacement
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, Training

__all__ = ["DpFedAvg"]


@dataclass(frozen=True, kw_only=True)
class DpFedAvg(Defence):
    """Clip every update and add Gaussian noise, on the server (McMahan et al., 2018) or on each client.

    On the server, the noise is calibrated to what one client can change in the mean. The server itself sees the updates
    before the noise; the guarantee holds only against observers of the shared model. On the clients, each update gets
    noise calibrated to what the client could have sent instead; the guarantee then also holds against the server, at
    the price of more noise in the mean.
    """

    name: ClassVar[str] = "dp-fedavg"
    summary: ClassVar[str] = (
        "Clips each client's update and adds Gaussian noise calibrated to the clipping norm, on the client or on the "
        "server (DP-FedAvg)."
    )

    no_buffers: ClassVar[str] = (
        "running statistics of BatchNorm are sent as they are, without clipping and noise, so no epsilon would hold"
    )

    noise: Annotated[
        float,
        Meta(
            gt=0,
            description="noise multiplier: standard deviation in units of the clip; Gradient-Leaks tries 1e-5 to 1e-1, "
            "a small epsilon takes 1 and more",
        ),
    ]
    clip: Annotated[
        float, Meta(gt=0, description="largest norm of an update over all layers; Gradient-Leaks uses 50")
    ] = 50.0
    where: Annotated[
        Literal["local", "server"],
        Meta(description="where noise is added: by each client to its update, or by the server to the mean"),
    ] = "local"
    delta: (
        Annotated[float, Meta(gt=0, lt=1, description="delta of the statement; 1 / (10 clients) if absent")] | None
    ) = None

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        """Clip first: the noise is calibrated to this bound, not to the raw norm."""
        bounded = clipped(update, self.clip)
        return noised(bounded, self.noise * self.clip, rng) if self.where == "local" else bounded

    def on_aggregate(self, aggregate: Params, shares: FloatArray, rng: np.random.Generator) -> Params:
        """Add noise measured by what the client that counts most can change."""
        if self.where == "local" or not len(shares):
            return aggregate
        return noised(aggregate, self.noise * self.clip * float(shares.max()), rng)

    @property
    def changes_mean(self) -> bool:
        """Only noise of the server is in the mean and not in the updates."""
        return self.where == "server"

    def privacy(self, training: Training) -> Statement:
        """At the level of clients; what a client can change is twice the clip, from one end to the other."""
        if not training.equal:
            return Statement.none(
                self.name,
                "updates are weighted by the number of a client's examples, which the noise does not protect; set "
                'weighting = "equal" in [federation]',
            )
        delta = default_delta(training.clients) if self.delta is None else self.delta
        whole, once = (gaussian(self.noise / 2, rounds, delta) for rounds in (training.most, 1))
        skipped = ", and which updates were left out because they were not finite" if training.skips else ""
        common = Statement(
            defence=self.name,
            epsilon=whole.epsilon,
            per_round=once.epsilon,
            delta=delta,
            unit="client",
            count=training.clients,
            adjacency="replace-one, all data of one client is replaced",
            against="anyone who sees what a client sends, including the server",
            trusted="nobody but the client itself, which clips and adds the noise",
            sampling="not used, every round in which the client takes part counts in full",
            public="how many clients there are, who takes part in which round, and how many examples each client has "
            f"where the server is told{skipped}",
            composition=f"at most {training.most} rounds with the client; this run only",
            accountant=whole.accountant,
            mechanism="Gaussian, on each update",
            noise=self.noise,
            clip=self.clip,
            how=f"Gaussian mechanism on each update, noise multiplier {self.noise:g}",
        )
        return common if self.where == "local" else self._on_server(common, training, delta, skipped)

    def _on_server(self, common: Statement, training: Training, delta: float, skipped: str) -> Statement:
        """What differs where the server adds the noise."""
        common = replace(
            common,
            against="anyone who sees only the shared model; the server sees updates before the noise",
            seen="model",
            trusted="the server, which adds the noise and must keep the updates to itself",
            public=f"how many clients there are, and who takes part in which round{skipped}",
            mechanism="Gaussian, on the mean of a round's updates",
            how=f"Gaussian mechanism on the mean, noise multiplier {self.noise:g}",
        )
        if not training.fresh:  # who takes part depends on who did before
            return common
        hidden = without_replacement(training.selected, training.clients, self.noise / 2, training.rounds, delta)
        return replace(
            common,
            hidden_epsilon=hidden.epsilon,
            sampling=f"{common.sampling}; while it is secret of every client, the adversary's own included, whether it "
            f"took part: fixed size, {training.selected} of {training.clients} clients without replacement",
            composition=f"{common.composition}; while it is secret who took part, all {training.rounds} rounds",
            accountant=f"{common.accountant}; while it is secret who took part, {hidden.accountant}",
        )

    def spent(
        self, training: Training, examples: int, rounds: Sequence[int], delta: float, *, tight: bool
    ) -> list[float]:
        """Only rounds with the client touch its data, and who takes part does not depend on anybody's."""
        return [gaussian(self.noise / 2, count, delta).epsilon for count in rounds]

    def clashes(self, before: Sequence[Defence], after: Sequence[Defence]) -> str | None:
        """Whatever could lengthen an update after it was clipped would void the server's noise."""
        if self.where == "local":
            return None
        late = [other.name for other in after if other.overrides("on_update")]
        if late:
            return f"'{late[0]}' changes updates after they were clipped, so the server's noise no longer covers them"
        early = [other.name for other in before if other.overrides("on_aggregate")]
        if early:
            return f"'{early[0]}' changes the mean before the noise, which covers only a mean of clipped updates"
        return None


def noised(values: Params, sigma: float, rng: np.random.Generator) -> Params:
    """Add Gaussian noise, layer after layer."""
    return {
        layer: part + rng.standard_normal(part.shape, dtype=np.float32) * np.float32(sigma)
        for layer, part in values.items()
    }
