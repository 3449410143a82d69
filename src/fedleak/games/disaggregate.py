"""The `disaggregate` game: what did this client send, on average?

Secure aggregation hides an update among those of its round, not a client among all rounds (Lam et al., 2021; So et al.,
2023). The game asks for the mean update of every client, and scores the estimates against the recorded updates,
which its adversary does not see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import registry
from fedleak.core import percent
from fedleak.errors import AttackError, did_you_mean
from fedleak.federation.hooks import Defence
from fedleak.games.game import BaseGame, Contract, GameInstance, Headline, Needs, Predictions, Questions
from fedleak.metrics import disaggregation
from fedleak.metrics.disaggregation import MeanUpdates
from fedleak.metrics.metric import Metric
from fedleak.metrics.user_scores import RECOVERED
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

__all__ = ["Disaggregate", "MeanQuestions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanQuestions(Questions):
    """One question about each client that took part."""

    clients: tuple[str, ...]  # by their names in a selection
    layer: str
    size: int

    def __len__(self) -> int:
        return len(self.clients)

    @property
    def choices(self) -> int:
        """The number of clients."""
        return len(self.clients)


@dataclass(frozen=True, kw_only=True)
class Disaggregate(BaseGame):
    """Ask for one layer of the mean update of every client."""

    name: ClassVar[str] = "disaggregate"
    summary: ClassVar[str] = "What did this client send, on average?"
    criteria: ClassVar[tuple[Criterion, ...]] = ("linkability",)
    strongest: ClassVar[str | None] = "disaggregate-ridge"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            name="recovered",
            title="clients recovered",
            short="recovered",
            text="The share of clients whose estimated mean update is more like their own mean update than like any "
            "other client's (cosine, after the mean over all clients is subtracted). Chance is to be given another "
            "client's estimate.",
            measure=disaggregation.recovered,
            each_user=RECOVERED,
        ),
        Metric(
            name="likeness",
            title="cosine similarity to the true mean update",
            short="cosine",
            text="The cosine similarity of the estimated and the true mean update of a client, less what all clients "
            "have in common; negative values count as 0. Chance is to be given another client's estimate.",
            measure=disaggregation.likeness,
            column="cosine",
        ),
    )
    needs_prior: ClassVar[bool | None] = None
    needs_owners: ClassVar[bool] = False

    layer: Annotated[str, Meta(description="which layer of the updates; `last` is the one nearest to the output")] = (
        "last"
    )

    @property
    def controls(self) -> tuple[str, ...]:
        """Sums contain the updates whatever the data; only wrong participation leaves nothing to find."""
        return ("shuffled-selection",)

    @property
    def note(self) -> str:
        """Why the question can be answered where no data is user-specific."""
        return (
            "Sums contain what clients send, whatever their data: a recovered client means that its mean update is no "
            "longer hidden, not that the update says something about its user."
        )

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Ask about every client of a user that took part; the adversary keeps no prior data."""
        if not trace.header.holds_updates:
            raise AttackError(
                f"{trace.folder}: this run recorded sums only, so there is nothing to score estimates against; run "
                "'disaggregate' on the undefended run, as 'aggregate-server'"
            )
        for defence in (str(table["name"]) for table in trace.header.defences):
            if registry.load("defence", defence).on_aggregation is not Defence.on_aggregation:
                raise AttackError(
                    f"{trace.folder}: under '{defence}' the trace records what the server sees of an update, not what "
                    "the client sent, so estimates cannot be scored; remove the defence from this plan. "
                    "'aggregate-server' sees only sums without it, too"
                )
        names = [layer.name for layer in trace.header.layout]
        if self.layer not in ("last", *names):
            raise AttackError(
                f"[[game]] disaggregate: the model has no layer '{self.layer}'{did_you_mean(self.layer, names)}"
            )
        layer = names[-1] if self.layer == "last" else self.layer
        client = np.asarray(trace.client)
        own = np.asarray(trace.header.shadow)[client] >= 0  # shadow clients
        present = np.unique(client[~own])
        if len(present) < 2:
            raise AttackError(f"{trace.folder}: {len(present)} client(s) took part; at least two are needed")
        updates = np.asarray(trace.updates(layer), dtype=np.float64)
        means = np.stack([updates[client == index].mean(axis=0) for index in present])
        clients = tuple(trace.header.clients[int(index)] for index in present)
        who = np.arange(len(clients), dtype=np.int64)
        return GameInstance(
            questions=MeanQuestions(
                updates=np.zeros(0, dtype=np.int64), options=(), clients=clients, layer=layer, size=means.shape[1]
            ),
            answers=MeanUpdates(
                right=who, who=who, users=tuple(str(truth.client_user[name]) for name in clients), means=means
            ),
            prior=prior.take(np.zeros(0, dtype=np.int64)),
            shadow=np.full(len(trace.shadow), -1, dtype=np.int64),
        )

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject predictions that are not one finite update for every client."""
        assert isinstance(questions, MeanQuestions)
        shape = (len(questions), questions.size)
        if claims.shape != shape:
            raise AttackError(
                f"attack '{attack}' returned an array of shape {claims.shape}; expected mean updates "
                f"(clients, size of the layer) = {shape}"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all():
            raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} values that are not finite")
        return claims

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """The share of clients recovered from the sums."""
        share = scores["recovered"]
        return Headline(
            percent(share.value),
            f"From the sums of the rounds, {percent(share.value)} of clients are recovered: the estimate of what a "
            f"client sent is nearest to that client's own mean update, out of {share.options} clients; guessing would "
            f"manage {percent(share.chance)}.",
        )

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """Synthetic updates and their sums, or the sums of other updates."""
        from fedleak.games.traces.users import write_sums

        return Contract(
            game=cls(), write=lambda folder, seed, leak: write_sums(folder, seed, leak=leak), metric="recovered"
        )
