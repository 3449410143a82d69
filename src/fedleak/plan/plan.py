"""The tables of a plan: what to audit, how it is trained, the adversaries, and the limits.

Every field has a `description`; the reference in docs/reference/plan.md is generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from fedleak.plan.capability_tables import ImprintPlan, InjectPlan, IsolatePlan, JoinPlan, ProxyPlan
from fedleak.plan.recorded_tables import PriorPlan, TracePlan, TruthPlan
from fedleak.plan.signoff_table import SignoffPlan

if TYPE_CHECKING:  # protocols of later rooms: a plan names them and imports none
    from fedleak.analyses.analysis import Analyser
    from fedleak.attacks.attack import Attack
    from fedleak.federation.hooks import Defence
    from fedleak.federation.model import Architecture
    from fedleak.games.game import Game
    from fedleak.population.population import Dataset
    from fedleak.views.adversaries import Adversary

__all__ = [
    "PopulationPlan",
    "FederationPlan",
    "TracePlan",
    "TruthPlan",
    "PriorPlan",
    "ImprintPlan",
    "InjectPlan",
    "IsolatePlan",
    "JoinPlan",
    "ProxyPlan",
    "RecordPlan",
    "AuditPlan",
    "Control",
    "Play",
    "Plan",
    "trained_part",
]

Control: TypeAlias = Literal[
    "iid", "fresh-data", "decoys", "shuffled-selection", "swapped-secrets", "rotated-owners", "other-federation"
]
"""A run, or a way to mark claims, in which there is nothing to find."""

Play: TypeAlias = "tuple[Attack, Game, Adversary]"
"""An attack, the game whose questions it answers, and the adversary as whom it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationPlan:
    """The users who take part, and which of their data the adversary already knows."""

    users: (
        Annotated[int, Meta(ge=2, description="how many users take part, drawn by the seed; all if absent")] | None
    ) = None
    disjoint: Annotated[
        bool,
        Meta(
            description="draw different users for every seed: seeds 0, 1, 2, ... each take a slice of one fixed order "
            "of the users, so that no user is in two runs; needs users"
        ),
    ] = False
    examples: Annotated[int, Meta(ge=2, description="at most this many examples per user; all if absent")] | None = None
    prior: Annotated[
        Literal["random", "chrono", "album", "none"],
        Meta(
            description="how a user's data is divided: at random, older and newer, by album, or not at all (none): "
            "everything stays on the clients and the adversary has no prior data"
        ),
    ] = "random"
    split: Annotated[
        Literal["auto", "independent", "balanced", "half", "stratified"],
        Meta(
            description="how a random prior is drawn. independent: whole documents, albums or days, or else single "
            "examples, at random. balanced: the same number of each class for every user, on each side. auto: balanced "
            "where users' class counts are equal by design, otherwise independent. half: plain random halves, as in "
            "Gradient-Leaks. stratified: each user's own class counts on both sides; this creates artificial leaks, "
            "and every output says so"
        ),
    ] = "auto"
    prior_share: Annotated[float, Meta(gt=0, lt=1, description="share of a user's data that the adversary knows")] = 0.5
    prior_examples: Annotated[
        Annotated[int, Meta(ge=1)] | Literal["equal", "all"],
        Meta(
            description="how many examples of a user the prior holds, drawn at random from the part that prior and "
            "prior_share give. equal: the same for every user, as many as all of them have (if a twentieth of the "
            "users or fewer would halve that, they are left out), so that the size of a prior reveals nothing; a "
            "number: at most this many, and the same for every user; all: whatever each user has. Private data stays "
            "the same"
        ),
    ] = "equal"
    test_share: Annotated[
        float, Meta(gt=0, lt=1, description="held out from every user for utility, if the data set has no test set")
    ] = 0.2
    held_out: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="share of every user's data that no client trains on, drawn at random before any other split: "
            "the non-members that game `membership` asks about",
        ),
    ] = 0.0
    outsiders: Annotated[
        int,
        Meta(
            ge=0,
            description="users who take no part, drawn and split like those who do: the non-members of game "
            "`membership`. With disjoint, they are in no other run either",
        ),
    ] = 0
    min_examples: Annotated[int, Meta(ge=2, description="users with fewer examples are too small to split")] = 4
    few: Annotated[Literal["drop", "stop"], Meta(description="what to do about users with too few examples")] = "drop"
    twins: Annotated[
        Literal["drop", "merge", "keep"],
        Meta(description="users who share most of their examples: keep one of them, merge them, or keep them all"),
    ] = "drop"
    copies: Annotated[
        Literal["drop", "keep"],
        Meta(
            description="examples that a user has more than once: keep the first, so that no duplicate is on the other "
            "side of the split, or keep all. Examples that many users hold are not duplicates"
        ),
    ] = "drop"
    untimed: Annotated[
        Literal["drop", "keep"], Meta(description="users without usable times, where the prior is chronological")
    ] = "drop"
    background_users: Annotated[
        int, Meta(ge=0, description="users set aside as background data, if the data set has none")
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationPlan:
    """Federated averaging (McMahan et al., 2017)."""

    rounds: Annotated[int, Meta(ge=1, description="how many rounds")] = 100
    fraction: Annotated[float, Meta(gt=0, le=1, description="share of the clients selected each round (C)")] = 0.1
    epochs: Annotated[int, Meta(ge=1, description="passes over the local data each round (E)")] = 1
    batch: Annotated[int, Meta(ge=1, description="examples in a local step (B)")] = 20
    lr: Annotated[float, Meta(gt=0, description="learning rate of the local steps")] = 0.05
    optimizer: Annotated[
        Literal["sgd", "adam"], Meta(description="of the local steps; Adam starts again each round")
    ] = "sgd"
    clip: Annotated[float, Meta(gt=0, description="bound on each local step's gradient; none if absent")] | None = None
    clip_by: Annotated[
        Literal["norm", "value"],
        Meta(description="what clip bounds: the norm of the gradient, or the size of each of its entries"),
    ] = "norm"
    plateau: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="divide the learning rate by 10 if the validation loss has not decreased for this many "
                "rounds; never if absent. Half of the held-out examples are for validation then",
            ),
        ]
        | None
    ) = None
    patience: (
        Annotated[
            int,
            Meta(
                ge=1,
                description="early stopping: train no further if the validation loss has not decreased for this many "
                "rounds; never if absent",
            ),
        ]
        | None
    ) = None
    weighting: Annotated[
        Literal["examples", "equal"], Meta(description="how updates are averaged: by number of examples, or equally")
    ] = "examples"
    on_nan: Annotated[
        Literal["stop", "skip"], Meta(description="if a client sends NaN or infinity: stop the run, or drop the update")
    ] = "stop"
    centralised: Annotated[
        bool,
        Meta(description="also report centralised training on all users' data and nearest neighbours, as baselines"),
    ] = True
    train: (
        Annotated[
            str,
            Meta(
                description="`module:callable`, the local training of your own clients: `train(module, x, y)` trains a "
                "torch module in place, on tensors. Then lr, epochs, batch, optimizer and clip are not used"
            ),
        ]
        | None
    ) = None

    @property
    def monitored(self) -> bool:
        """Whether the server watches a validation loss."""
        return self.plateau is not None or self.patience is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlan:
    """How the run is recorded on disk."""

    dtype: Annotated[
        Literal["float32", "float16"], Meta(description="how updates are stored; float16 halves the size")
    ] = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """The adversaries, and what the attacks are compared with."""

    adversaries: Annotated[
        tuple[str, ...], Meta(min_length=1, description="the adversaries (fedleak list adversaries)")
    ] = ("anonymous-server",)
    controls: Annotated[
        tuple[Control, ...] | Literal["auto"],
        Meta(
            description="audits that must show no leak. auto: the controls that each game needs. With several games, "
            "each is played on the controls that it has, and on iid. iid: no data is user-specific, because all data "
            "is pooled and redistributed at random before any other step. fresh-data: every client has different "
            "examples in every round, for games that can be won from repeated data (link, reconstruct, match "
            "between anonymous updates). For secrets: decoys, scored against records that no client holds; "
            "shuffled-selection, where the adversary gets the participation of the rounds in the wrong order, and"
            " wrong positions of its own records; and swapped-secrets, where predictions for a client are scored "
            "against another user's secret. For membership: decoys, and other-federation, where the same "
            "questions are asked of the run of another seed, in which nobody in question took part. For a "
            "recorded run: rotated-owners, where every client is given another user's identity before questions "
            "are drawn"
        ),
    ] = "auto"
    adaptive: Annotated[
        bool,
        Meta(
            description="attack every defence twice: by a defence-unaware attacker, and by a defence-aware attacker, "
            "who can apply it to data of their own; false leaves out the second"
        ),
    ] = True
    target: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="recommend a defence if every attack's upper confidence bound is below this advantage (0: a "
            "score at chance, 1: the highest possible one)",
        ),
    ] = 0.1
    level: Annotated[float, Meta(gt=0.5, lt=1, description="confidence level of every interval")] = 0.95
    permutations: Annotated[
        int, Meta(ge=20, description="number of permutations of identities for the chance level")
    ] = 200
    memory: Annotated[
        int,
        Meta(ge=16, description="MB of updates that each attack may keep in memory; wider layers are sketched to fit"),
    ] = 2000
    minutes: Annotated[
        float, Meta(gt=0, le=10_000, description="minutes of computing after which an attack is stopped")
    ] = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that an audit needs to know, with all defaults filled in."""

    title: str
    story: str
    seeds: tuple[int, ...]
    dataset: Dataset  # with [trace]: the prior data
    population: PopulationPlan
    model: Architecture
    federation: FederationPlan
    trace: TracePlan | None  # None: Fedleak trains the federation itself
    truth: TruthPlan
    prior: PriorPlan
    imprint: ImprintPlan | None
    inject: InjectPlan | None
    isolate: IsolatePlan | None
    join: JoinPlan | None
    proxy: ProxyPlan | None
    record: RecordPlan
    audit: AuditPlan
    attacks: tuple[Attack, ...]
    games: tuple[Game, ...]  # the game of every attack
    players: Mapping[str, tuple[str, ...]]  # game -> its adversaries, where these are not all of the plan's
    adversaries: tuple[Adversary, ...]
    analyses: tuple[Analyser, ...]
    defences: tuple[tuple[Defence, ...], ...]  # alternatives, each one or more at the same time
    deployed: int | None  # which defence is deployed; the limits apply to that run, or to the undefended one
    signoff: SignoffPlan
    # game -> metric -> the lower end of an interval must not exceed it; epsilon -> unit -> what may be spent
    limits: Mapping[str, Mapping[str, float]]
    text: str = ""  # the content of the file
    source: str = "plan"  # the name of the file, for errors
    change: Mapping[str, Any] = field(default_factory=dict)  # overrides from the caller, in the plan's own keys
    resolved: Mapping[str, Any] = field(default_factory=dict)  # the same as plain data, with every default
    in_process: bool = False  # it holds objects, which cannot be passed to worker processes

    @property
    def plays(self) -> list[Play]:
        """Every (attack, game, adversary) of the audit: an attack is run as every adversary that can run it."""
        return [
            (attack, game, adversary)
            for attack in self.attacks
            for game in self.games
            if game.name == attack.game
            for adversary in self.adversaries_of(game.name)
            if not adversary.missing(attack)
        ]

    def adversaries_of(self, game: str) -> list[Adversary]:
        """The adversaries that play a game."""
        return [one for one in self.adversaries if one.name in self.players.get(game, [one.name])]

    def controlled_by(self, game: Game, control: str) -> bool:
        """Whether a game is played on a control: it is one of its own, or none of any game's, or `iid`.

        Where a game can be won from repeated data, `iid` shows how much of its score says nothing about users.
        """
        return control == "iid" or control in game.controls or not any(control in one.controls for one in self.games)

    @property
    def trained(self) -> dict[str, Any]:
        """The part that determines what is trained; attacks, defences, seeds and limits can be added later."""
        return trained_part(self.resolved)


def trained_part(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a resolved plan that determines what is trained."""
    decides = (
        *("dataset", "population", "model", "federation", "trace", "truth", "prior"),
        *("imprint", "inject", "isolate", "join", "proxy", "record"),
    )
    return {key: resolved[key] for key in decides if key in resolved}
