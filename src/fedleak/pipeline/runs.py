"""One run of an audit: a federation trained with one seed, undefended, as a control, or under a defence.

A run's folder holds `trace/` (what happened), `truth/` (identities), `prior/` (what the adversary already knew),
`predictions/` (the predictions of each attack) and `run.json`, which is written last and marks the run as trained.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from fedleak.core import Capability, Observation
from fedleak.errors import TraceError
from fedleak.federation.hooks import Defence
from fedleak.federation.models.own import Own
from fedleak.plan.configure import to_dict
from fedleak.plan.given import code_of
from fedleak.plan.plan import Plan, Play
from fedleak.record.recording import Recording, identity_of
from fedleak.trace.files import read_whole
from fedleak.trace.run_facts import RunFacts

if TYPE_CHECKING:  # training knows nothing of views
    from fedleak.games.game import Game
    from fedleak.views.adversaries import Adversary
    from fedleak.views.view import OwnModel

__all__ = ["Variant", "Run", "digest", "variants", "runs", "facts"]


@dataclass(frozen=True)
class Variant:
    """What sets a run apart from the undefended one."""

    defences: tuple[Defence, ...] = ()
    control: str | None = None
    deployed: bool = False
    # The adversary is defence-aware: it applies the defences on its own machine to what it trains there ("machine").
    # With prior data ("clients") this variant has a federation in which shadow clients apply them, to measure utility.
    adaptive: Literal["clients", "machine"] | None = None

    @property
    def trained(self) -> bool:
        """Whether it has its own federation; others reuse one that is trained for another variant."""
        return self.control in (None, "iid", "fresh-data") and self.adaptive != "machine"

    @property
    def played(self) -> bool:
        """Whether attacks run on it; other controls score the same predictions against something else."""
        return self.control not in ("decoys", "swapped-secrets")

    @property
    def label(self) -> str:
        """A short name: `plain`, `iid`, or the defence with a digest of its settings."""
        if self.control:
            return self.control
        if not self.defences:
            return "plain"
        names = "+".join(defence.name for defence in self.defences)
        known = "-known" if self.adaptive else ""
        return f"{names}-{digest([to_dict(defence) for defence in self.defences])[:6]}{known}"

    @property
    def folder(self) -> str:
        """The folder of its federation."""
        return self.label if self.trained else replace(self, control=None, adaptive=None).label

    def plays(self, plan: Plan) -> list[Play]:
        """Every (attack, game, adversary) that runs on it.

        Without shadow clients, or where a game hides them, knowing the defence makes a difference only to attacks that
        simulate clients. A control is for games that have it. Rotated owners are one only where the answers depend on
        owners, and shuffled selection only for an adversary that is told something wrong by it.
        """
        shuffled = self.control == "shuffled-selection"
        return [
            one
            for one in plan.plays
            if (self.adaptive is None or getattr(one[0], "imitates", False) or self._labelled(one[1]))
            and (one[1].needs_owners if self.control == "rotated-owners" else self._has(plan, one[1]))
            and (_told_by_order(plan, one[2]) or not shuffled)
        ]

    def _labelled(self, game: Game) -> bool:
        """Whether the adversary of a game has shadow clients in the federation."""
        return self.adaptive == "clients" and game.needs_prior is not False

    def _has(self, plan: Plan, game: Game) -> bool:
        return self.control is None or plan.controlled_by(game, self.control)


def _told_by_order(plan: Plan, adversary: Adversary) -> bool:
    """Whether an adversary learns which client was there when: from the selection, or from records in several clients.

    A single injected record cannot be assigned to another client. A record of the same kind that nobody holds would be
    no control: the victim's model learns that kind, so its exposure follows the victim's participation, too.
    """
    several = plan.inject is not None and plan.inject.victims != 1
    return Observation.SELECTION in adversary.observations or (Capability.INJECT in adversary.capabilities and several)


@dataclass(frozen=True)
class Run:
    """A variant with a seed, and its folder."""

    variant: Variant
    seed: int
    folder: Path
    fingerprint: str
    memory: int = 2000  # MB of updates that an attack on it may hold
    minutes: float = 120.0  # of computing that an attack on it may use
    other: Path | None = None  # the folder of the federation that is attacked, if it is not its own
    # Code that the plan names, for attacks that train the model as its clients do.
    own_model: OwnModel | None = None
    # Runs of other seeds, which an adversary that trains federations of its own is given: defended if it knows of the
    # defence.
    references: tuple[Path, ...] = ()
    own_training: str | None = None
    withheld: frozenset[str] = frozenset()  # modules that hold users' data, which no attack may import

    @property
    def attacked(self) -> Path:
        """The folder with the trace, truth and prior of the attacks on it."""
        return self.other or self.folder

    @property
    def observed(self) -> Path:
        """The folder of the federation that attacks observe: for the control `other-federation`, another seed's."""
        return self.references[0] if self.variant.control == "other-federation" else self.attacked

    @property
    def handed_over(self) -> tuple[Path, ...]:
        """The references that attacks are given: not the federation that they observe."""
        return tuple(folder for folder in self.references if folder != self.observed)

    @property
    def name(self) -> str:
        """The name used in messages."""
        return f"{self.variant.label}, seed {self.seed}"


def digest(data: object) -> str:
    """A fingerprint of plain data."""
    return hashlib.sha256(msgspec.json.encode(data, order="deterministic")).hexdigest()


def variants(plan: Plan) -> list[Variant]:
    """The undefended run, then controls, then defences, each with a defence-unaware and a defence-aware attacker."""
    how: Literal["clients", "machine"] = "machine" if plan.population.prior == "none" else "clients"
    known = (None, how) if plan.audit.adaptive else (None,)
    return [
        Variant(deployed=plan.deployed is None),
        *(Variant(control=control) for control in plan.audit.controls),
        *(
            Variant(defences=chosen, deployed=plan.deployed == i, adaptive=adaptive)
            for i, chosen in enumerate(plan.defences)
            for adaptive in known
        ),
    ]


def attacked(plan: Plan, variant: Variant, folder: Path) -> Path | None:
    """The folder of the federation that a variant's attacks are about, if it is not the variant's own.

    A defence-aware adversary loses nothing by what it knows: it attacks the same federation as a defence-unaware one,
    to which its shadow clients send raw updates, and applies the defence on its own machine. Where it cannot build the
    model there, its shadow clients have to apply it, in the federation that measures utility.
    """
    if variant.adaptive != "clients" or not buildable(plan):
        return None
    return folder / replace(variant, adaptive=None).folder


def runs(plan: Plan, out: Path) -> list[Run]:
    """Every run of a plan, in the order of its variants and seeds."""
    recorded = [] if plan.trace is None else [recorded_identity(plan)]
    handed = plan.model if isinstance(plan.model, Own) and buildable(plan) else None
    return [
        Run(
            variant=variant,
            seed=seed,
            folder=out / "runs" / variant.folder / f"seed-{seed}",
            fingerprint=digest(
                [
                    plan.trained,
                    variant.control if variant.trained else None,
                    [to_dict(d) for d in variant.defences],
                    variant.adaptive == "clients",
                    seed,
                    *code_of("dataset", plan.dataset),
                    *code_of("model", plan.model),
                    *code_of("defence", *variant.defences),
                    *recorded,
                ]
            ),
            memory=plan.audit.memory,
            minutes=plan.audit.minutes,
            withheld=withheld(plan),
            own_model=handed,
            own_training=None if handed is None else plan.federation.train,
            references=tuple(
                out / "runs" / _reference(variant).folder / f"seed-{other}"
                for other in plan.seeds
                if other != seed and plan.population.disjoint
            ),
            other=None if (other := attacked(plan, variant, out / "runs")) is None else other / f"seed-{seed}",
        )
        for variant in variants(plan)
        for seed in plan.seeds
    ]


def _reference(variant: Variant) -> Variant:
    """The variant of the federations that an adversary trains itself: without defences that it does not know of."""
    return replace(variant, control=None, adaptive=None) if variant.adaptive else Variant()


def buildable(plan: Plan) -> bool:
    """Whether an attack's process can build the plan's model: not one that was given as an object."""
    return not isinstance(plan.model, Own) or plan.model.handed_over


def withheld(plan: Plan) -> frozenset[str]:
    """The modules of users' data, unless the model comes from the same one."""
    truth, prior = plan.truth, plan.prior
    named = (
        *(prior.data, prior.background, prior.watermarks, truth.owners, truth.data, truth.secrets),
        *(getattr(plan.dataset, key, None) for key in ("target", "background")),
    )
    shown = {getattr(plan.model, "target", "").partition(":")[0], (plan.federation.train or "").partition(":")[0]}
    return frozenset(name.partition(":")[0] for name in named if isinstance(name, str) and ":" in name) - shown


def recorded_identity(plan: Plan) -> str:
    """A digest of what a plan names on disk: the recorded run, and the files that say what its clients are and hold."""
    assert plan.trace is not None
    folder = Path(plan.trace.path).expanduser()
    if not (folder / "trace" / "header.json").exists():
        Recording.open(folder)  # says what is wrong
    named = [None if plan.truth.owners == "key" else plan.truth.owners, plan.truth.secrets, plan.prior.watermarks]
    files = [None if name is None else Path(name).expanduser() for name in named]
    content = [read_whole(file).hex() if file is not None and file.is_file() else "" for file in files]
    return digest([identity_of(folder), *content])


def facts(run: Run) -> RunFacts | None:
    """The description of a trained run; None if its training is not finished."""
    found = RunFacts.load(run.folder)
    if found is not None and found.fingerprint != run.fingerprint:
        what = ", or the recorded run or a file about its clients has changed since" if found.origin else ""
        raise TraceError(f"{run.folder} holds a run of another plan{what}; choose another --out")
    return found
