"""One run of an audit: a federation trained with one seed, undefended, as a control, or under a defence.

A run's folder holds `trace/` (what happened), `truth/` (who is who), `prior/` (what the adversary knew beforehand),
`claims/` (what each attack answered) and `run.json`, which is written last and marks the run as trained.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedleak.core import Layout, Params, derive
from fedleak.errors import AttackError, PlanError, TraceError, did_you_mean
from fedleak.federation.federation import defended, devices, initial, train
from fedleak.federation.model import Input, Model, Signature
from fedleak.federation.utility import BITS, METRICS, bits, bits_blind, centralised, chance, evaluate, nearest
from fedleak.games.game import Asked, Claims
from fedleak.plan.configure import plain
from fedleak.plan.plan import Plan
from fedleak.population.population import Examples
from fedleak.population.prepare import Prepared, prepare
from fedleak.score.assemble import Facts, settings_key
from fedleak.score.result import Finding
from fedleak.score.score import Played
from fedleak.trace.files import private_folder, read_whole, write_atomic
from fedleak.trace.header import Header
from fedleak.trace.lock import locked
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter
from fedleak.views.view import View

__all__ = [
    "Variant",
    "Run",
    "variants",
    "runs",
    "train_run",
    "asked",
    "play",
    "attack_run",
    "facts",
    "is_played",
    "played",
]

Tick = Callable[[float], None]


@dataclass(frozen=True)
class Variant:
    """What sets a run apart from the undefended one."""

    defences: tuple[Any, ...] = ()
    control: str | None = None
    deployed: bool = False

    @property
    def trained(self) -> bool:
        """Whether it has a federation of its own; other controls look at the undefended one again."""
        return self.control in (None, "iid")

    @property
    def label(self) -> str:
        """A short name for folders: `plain`, `iid`, or the defence with a digest of its settings."""
        if self.control:
            return self.control
        if not self.defences:
            return "plain"
        names = "+".join(defence.name for defence in self.defences)
        return f"{names}-{digest([plain(defence) for defence in self.defences])[:6]}"


@dataclass(frozen=True)
class Run:
    """A variant with a seed, and where it lies."""

    variant: Variant
    seed: int
    folder: Path
    fingerprint: str

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.variant.label}, seed {self.seed}"


def digest(data: Any) -> str:
    """A fingerprint of plain data."""
    return hashlib.sha256(msgspec.json.encode(data, order="deterministic")).hexdigest()


def variants(plan: Plan) -> list[Variant]:
    """The undefended run first, then controls, then defences."""
    return [
        Variant(deployed=plan.deployed is None),
        *(Variant(control=control) for control in plan.audit.controls),
        *(Variant(defences=chosen, deployed=plan.deployed == i) for i, chosen in enumerate(plan.defences)),
    ]


def runs(plan: Plan, out: Path) -> list[Run]:
    """Every run of a plan, in the order of its variants and seeds."""
    return [
        Run(
            variant=variant,
            seed=seed,
            folder=out / "runs" / (variant.label if variant.trained else "plain") / f"seed-{seed}",
            fingerprint=digest(
                [
                    plan.trained,
                    variant.control if variant.trained else None,
                    [plain(d) for d in variant.defences],
                    plan.audit.adaptive,
                    seed,
                ]
            ),
        )
        for variant in variants(plan)
        for seed in plan.seeds
    ]


def facts(run: Run) -> Facts | None:
    """What a trained run says about itself; None if it is not trained to the end."""
    path = run.folder / "run.json"
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(read_whole(path), type=Facts)
    except msgspec.DecodeError as error:
        raise TraceError(f"{path} is damaged ({error}); delete {run.folder} and train again") from error
    if found.fingerprint != run.fingerprint:
        raise TraceError(f"{run.folder} holds a run of another plan; choose another --out")
    return found


def train_run(plan: Plan, run: Run, tick: Tick, workers: int = 1) -> None:
    """Train a federation and record it, from where an earlier attempt stopped."""
    # Patience, because workers of a killed command notice its end only after the round they are in.
    with locked(run.folder, patience=30):
        if facts(run) is not None:
            return
        started = time.monotonic()
        prepared = prepare(plan.dataset, plan.population, run.seed, iid=run.variant.control == "iid")
        model = fitting_model(plan, prepared)
        trained = defended(model, run.variant.defences)
        members = devices(prepared.shares, run.seed, adaptive=plan.audit.adaptive)
        users = [share.user for share in prepared.shares]
        Truth(
            users=tuple(user.id for user in users),
            device_user={device.id: device.user for device in members},
            attributes={user.id: dict(user.attributes) for user in users},
            traits=prepared.traits,
            secrets={user.id: user.secrets for user in users if user.secrets},
            decoys={user.id: user.decoys for user in users if user.decoys},
        ).save(run.folder / "truth")
        known = [share for share in prepared.shares if len(share.prior)]
        Prior(
            candidates=tuple(share.user.id for share in known),
            examples=tuple(share.prior for share in known),
            task=prepared.task,
            outputs=prepared.outputs,
            attributes=tuple(dict(share.user.attributes) for share in known),
            background=None if prepared.public is None else Background(examples=prepared.public, shows=prepared.shows),
            records=prepared.records,
        ).save(run.folder / "prior")
        header = Header(
            fingerprint=run.fingerprint,
            rounds=plan.federation.rounds,
            task=prepared.task,
            model=plan.resolved["model"]["name"],
            layout=trained.layout,
            devices=tuple(device.id for device in members),
            shadow=tuple(device.shadow for device in members),
            settings=known_to_all(plan, prepared),
            defences=tuple(plain(defence) for defence in run.variant.defences),
            dtype=plan.record.dtype,
        )
        writer = TraceWriter.open(run.folder / "trace", header)
        if writer.weights is None:
            writer.start(initial(trained, run.seed))
        tick(writer.rounds)
        rounds = train(
            model,
            members,
            plan.federation,
            run.variant.defences,
            prepared.background,
            run.seed,
            start=writer.rounds,
            weights=writer.weights,
            workers=workers,
        )
        for done in rounds:
            writer.append(done)
            tick(1)
        weights = writer.weights
        assert weights is not None
        pooled = Examples.concat(part for share in prepared.shares for part in (share.private, share.prior))
        central = None
        near = None
        if plan.federation.centralised and run.variant.label == "plain":
            near = nearest(pooled, prepared.test, prepared.task)
            best = centralised(model, pooled, plan.federation, run.seed)
            central = useful(model, best, prepared)
        metric = METRICS[prepared.task] if prepared.records is None else BITS
        found = Facts(
            fingerprint=run.fingerprint,
            source=prepared.source,
            users=len(users),
            private_examples=sum(len(share.private) for share in prepared.shares),
            prior_examples=sum(len(share.prior) for share in prepared.shares),
            test_examples=len(prepared.test),
            parameters=sum(layer.size for layer in model.layout),
            layers={layer.name: layer.size for layer in model.layout},
            utility_metric=metric.name,
            higher_is_better=metric.higher_is_better,
            utility=useful(trained, weights, prepared),
            chance=chance(pooled, prepared.test, prepared.task)
            if metric is not BITS
            else bits_blind(pooled, prepared.test),
            centralised=central,
            knn=near,
            dropped=sum(1 for _ in Trace.open(run.folder / "trace").dropped()),
            seconds=time.monotonic() - started,
            findings=[Finding(kind=f.kind, count=f.count, action=f.action, text=f.text) for f in prepared.findings],
        )
        write_atomic(run.folder / "run.json", msgspec.json.encode(found))


def useful(model: Model, weights: Params, prepared: Prepared) -> float:
    """Utility by the task's metric; by bits per character where records are spelt."""
    if prepared.records is not None:
        return bits(model, weights, prepared.test)
    return evaluate(model, weights, prepared.test, prepared.task)


def fitting_model(plan: Plan, prepared: Prepared) -> Model:
    """Build the model and refuse, before anything is trained, what could only fail afterwards."""
    if prepared.task not in plan.model.tasks:
        raise PlanError(f"model '{plan.model.name}' cannot learn the task '{prepared.task.value}' of this data set")
    given = Input.WORDS if np.issubdtype(prepared.test.x.dtype, np.integer) else Input.NUMBERS
    if given not in plan.model.reads:
        raise PlanError(f"model '{plan.model.name}' cannot read {given.value}, which is what this data set gives")
    for attack in plan.attacks:
        if prepared.task not in attack.tasks:
            raise PlanError(f"attack '{attack.name}' does not apply to the task '{prepared.task.value}'; remove it")
    model: Model = plan.model.build(Signature(prepared.task, prepared.input_shape, prepared.outputs))
    check_layers(plan, model.layout)
    return model


def known_to_all(plan: Plan, prepared: Prepared) -> dict[str, Any]:
    """What every participant is sent before the first round: how to train, and how to build the model."""
    return {
        **plan.resolved["federation"],
        "architecture": plan.resolved["model"],
        "input_shape": list(prepared.input_shape),
        "outputs": prepared.outputs,
    }


def check_layers(plan: Plan, layout: Layout) -> None:
    """Refuse an attack on a layer that the model does not have."""
    names = [layer.name for layer in layout]
    for attack in plan.attacks:
        wanted = getattr(attack, "layer", "last")
        if wanted != "last" and wanted not in names:
            raise PlanError(
                f"attack '{attack.name}': model '{plan.model.name}' has no layer '{wanted}'"
                f"{did_you_mean(wanted, ['last', *names])}"
            )


def claims_path(run: Run, attack: Any, game: Any, adversary: Any) -> Path:
    """Where an attack's claims lie; other settings of the attack or of its game have another file."""
    key = digest(settings_key(attack, game, adversary))[:8]
    # Decoys are only marked against: what was claimed is the same.
    control = "-permuted" if run.variant.control == "permuted" else ""
    return run.folder / "claims" / f"{attack.name}-{key}@{adversary.name}{control}.npy"


def asked(run: Run, game: Any) -> Asked:
    """The questions of a game about a run; the same every time."""
    trace, truth = Trace.open(run.folder / "trace"), Truth.load(run.folder / "truth")
    if run.variant.control == "decoys":
        if not truth.decoys:
            raise AttackError(f"{run.folder}: control 'decoys', but none were drawn; set decoys = true in [dataset]")
        truth = replace(truth, secrets=truth.decoys)
    found: Asked = game.ask(trace, truth, Prior.load(run.folder / "prior"), derive(run.seed, "game", game.name))
    return found


def play(run: Run, attack: Any, game: Any, adversary: Any, *, memory: int = 2000, workers: int = 1) -> Played:
    """Let an attack answer a game's questions about a run, through the eyes of an adversary."""
    given = asked(run, game)
    view = View(
        run.folder / "trace",
        adversary,
        given.shadow,
        shuffled=derive(run.seed, "permuted") if run.variant.control == "permuted" else None,
        memory=memory,
        workers=workers,
    )
    rng = derive(run.seed, "attack", attack.name, adversary.name)
    claims = game.check(np.asarray(attack.run(view, given.prior, given.questions, rng)), given.questions, attack.name)
    return beside_the_truth(run, claims, game, given)


def beside_the_truth(run: Run, claims: Claims, game: Any, given: Asked) -> Played:
    """Put claims beside the right answers."""
    return Played(
        seed=run.seed,
        claims=claims,
        right=given.answers.right,
        options=given.questions.options,
        game=game.name,
        who=given.answers.who,
        people=given.answers.people,
        choices=given.questions.choices,
    )


def attack_run(run: Run, attack: Any, game: Any, adversary: Any, *, memory: int = 2000, workers: int = 1) -> None:
    """Play one attack on one trained run and keep its claims."""
    if facts(run) is None:
        raise TraceError(f"{run.folder} is not trained to the end; run `fedleak train` first")
    path = claims_path(run, attack, game, adversary)
    if path.exists():
        return
    private_folder(path.parent)
    buffer = io.BytesIO()
    claims = play(run, attack, game, adversary, memory=memory, workers=workers).claims
    np.save(buffer, claims, allow_pickle=False)
    write_atomic(path, buffer.getvalue())


def is_played(run: Run, attack: Any, game: Any, adversary: Any) -> bool:
    """Whether an attack's claims about a run are on disk."""
    return claims_path(run, attack, game, adversary).exists()


def played(run: Run, attack: Any, game: Any, adversary: Any) -> Played:
    """An attack's claims with the right answers."""
    path = claims_path(run, attack, game, adversary)
    if not path.exists():
        raise TraceError(f"attack '{attack.name}' was not played on {run.name}; run `fedleak attack` first")
    given = asked(run, game)
    try:
        kept = np.load(io.BytesIO(read_whole(path)), allow_pickle=False)
        claims = game.check(kept, given.questions, attack.name)
    except (ValueError, EOFError, AttackError) as error:
        raise TraceError(f"{path} is damaged ({error}); delete it and run `fedleak attack` again") from error
    return beside_the_truth(run, claims, game, given)
