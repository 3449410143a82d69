"""The contract that every attack is held to, for Fedleak's own tests and for those of plugin authors.

    from fedleak.testing import check_attack

    def test_my_attack_keeps_the_contract(tmp_path):
        check_attack(MyAttack(), tmp_path)

Two kinds of trace are made for it. In a *null trace* every device's updates resemble each other, but an anonymous
device has nothing in common with its owner's prior data, so nothing can be found. In a *planted-leak trace* both carry
the owner's signature, class mix and style, which the prior's pictures show, so an attack that finds nothing is broken.
For attacks that train the shared model any further, the same is done with a real federation of made-up people; for
attacks on records, with one of people who hold secrets (`fedleak.testing_records`), and for attacks that link
updates, with one of clients with few classes each (`fedleak.testing_link`). Reconstructed pictures are marked against
the data of the devices or of strangers (`fedleak.testing_reconstruct`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak import registry
from fedleak.attacks.attack import Attack
from fedleak.core import FloatArray, IntArray, Layer, Layout, Params, Power, Sight, Task, UserId, derive
from fedleak.federation.federation import Round, devices, initial, train
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.games.game import Asked
from fedleak.plan.configure import plain
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share, User
from fedleak.score.score import Measured, Played, measure
from fedleak.testing_link import write_clients
from fedleak.testing_reconstruct import VICTIMS, write_pictures
from fedleak.testing_records import write_secrets
from fedleak.trace.header import Header
from fedleak.trace.prior import Background, Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter
from fedleak.views.adversaries import Adversary, everyone

__all__ = ["ContractBroken", "check_attack", "null_trace", "planted_trace"]

USERS, ROUNDS, PER_ROUND, CLASSES, INPUTS = 12, 40, 8, 10, 6
ABOUT: tuple[Mapping[str, str], ...] = tuple({"group": ("even", "odd")[i % 2]} for i in range(USERS))
# What games ask that cannot be played without being told, or with half of so few people.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "attribute": {"attribute": "group"},
    "profile": {"trait": "marked"},
    "cross-modal": {"learn_from": "everyone"},
    "reconstruct": {"victims": VICTIMS, "samples": 8},
}
LAYOUT: Layout = (
    Layer("hidden", (("weight", (8, INPUTS)), ("bias", (8,)))),
    Layer("out", (("weight", (CLASSES, 8)), ("bias", (CLASSES,)))),
)


class ContractBroken(AssertionError):
    """An attack broke the contract; the message says which part."""


def check_attack(attack: Attack, folder: Path) -> None:
    """Hold an attack to the contract, on traces written below `folder`.

    Same seed, same claims; the trace is left as it was; every question is answered with finite scores; at chance on
    null traces, above chance on planted leaks. Whoever needs to know which devices took part, or which of its records
    stands where, must find nothing where that is told in the wrong order.
    """
    adversary = weakest(attack)
    write = write_federation if Sight.SNAPSHOTS in attack.needs else write_run
    metric = "ap"
    attributes = Sight.SELECTION in attack.needs or Power.INJECT in attack.powers
    if attack.game == "extract":
        write = partial(write_secrets, inject=Power.INJECT in attack.powers)
        metric = "top1" if attributes else "extracted"
    if attack.game == "link":
        write, metric = write_clients, "gap1"
    if attack.game == "reconstruct":
        write, metric = partial(write_pictures, power=attack.powers), "nearest"
    # Few people are asked for pictures, and each of them scores anything between nothing and everything.
    seeds = 5 if attack.game == "reconstruct" else 2
    planted = [write(folder / f"planted-{seed}", seed, leak=True) for seed in range(seeds)]
    before = digest(planted[0])
    first, again = play(attack, adversary, planted[0], 0), play(attack, adversary, planted[0], 0)
    if not np.array_equal(first.claims, again.claims):
        raise ContractBroken(f"{attack.name}: the same seed gave other claims")
    if digest(planted[0]) != before:
        raise ContractBroken(f"{attack.name}: the trace was changed")
    found = measured([first, *(play(attack, adversary, planted[seed], seed) for seed in range(1, seeds))], metric)
    # Who sees nobody's update cannot tell one device's data from another's, and must not seem to.
    blind = attack.game == "reconstruct" and Sight.UPDATES not in attack.needs
    if (found.low <= found.chance) != blind:
        raise ContractBroken(f"{attack.name}: a planted leak was not found ({told(found, metric)})")
    nulls = [write(folder / f"null-{seed}", seed, leak=False) for seed in range(4)]
    nothing = measured([play(attack, adversary, trace, seed) for seed, trace in enumerate(nulls)], metric)
    if nothing.low > nothing.chance:
        raise ContractBroken(f"{attack.name}: something was found where nothing is ({told(nothing, metric)})")
    if attributes:
        nothing = measured([play(attack, adversary, run, i, shuffled=True) for i, run in enumerate(planted)], metric)
        if nothing.low > nothing.chance:
            raise ContractBroken(
                f"{attack.name}: as much was found with selection and watermarks in the wrong order "
                f"({told(nothing, metric)})"
            )


def planted_trace(folder: Path, seed: int) -> Path:
    """A run whose devices, shadow and anonymous alike, carry their owner's signature."""
    return write_run(folder, seed, leak=True)


def null_trace(folder: Path, seed: int) -> Path:
    """A run whose anonymous devices carry signatures of their own, unrelated to anybody's prior data."""
    return write_run(folder, seed, leak=False)


def weakest(attack: Attack) -> Adversary:
    """The adversary who sees least and can still play the attack."""
    able: list[Any] = [adversary for adversary in everyone() if not adversary.missing(attack)]
    if not able:
        raise ContractBroken(f"{attack.name}: no registered adversary can play it")
    chosen: Adversary = min(able, key=lambda adversary: len(list(adversary.sights)))
    return chosen


def play(attack: Attack, adversary: Adversary, run: Path, seed: int, *, shuffled: bool = False) -> Played:
    """Play an attack once and pair its claims with the truth."""
    game = registry.load("game", attack.game)(**SETTINGS.get(attack.game, {}))
    trace, truth, prior = Trace.open(run / "trace"), Truth.load(run / "truth"), Prior.load(run / "prior")
    asked: Asked = game.ask(trace, truth, prior, derive(seed, "game"))
    answers = asked.answers
    order = derive(seed, "contract", "shuffled") if shuffled else None
    view, questions = asked.look(run / "trace", adversary, shuffled=order)
    claims = attack.run(view, asked.prior, questions, derive(seed, "contract"))
    claims = game.check(np.asarray(claims), questions, attack.name)
    # People of different seeds are different people, whatever they are called.
    options, people = (tuple(f"{seed}/{name}" for name in names) for names in (questions.options, answers.people))
    return Played(
        seed,
        claims,
        answers.right,
        options,
        attack.game,
        answers.who,
        people,
        questions.choices,
        gallery=answers.gallery,
        evidence=answers.evidence,
        judged=answers.judged,
    )


def measured(played: list[Played], metric: str) -> Measured:
    """A metric with an interval wide enough that a sound attack is not failed by accident."""
    return measure(played, metric, level=0.999, permutations=200)


def told(found: Measured, metric: str) -> str:
    """A metric for a message."""
    return f"{metric} {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], chance {found.chance:.2f}"


def digest(run: Path) -> str:
    """A fingerprint of every file of a run."""
    total = hashlib.sha256()
    for path in sorted(run.rglob("*")):
        if path.is_file():
            total.update(str(path.relative_to(run)).encode() + path.read_bytes())
    return total.hexdigest()


def write_run(folder: Path, seed: int, *, leak: bool) -> Path:
    """Write a trace, its truth and its prior as a real run would, from made-up updates."""
    rng = derive(seed, "contract trace", leak)
    users = tuple(UserId(f"user-{i:02}") for i in range(USERS))
    names = [f"d-{i:02}" for i in rng.permutation(2 * USERS)]
    shadow = [i if i < USERS else -1 for i in range(2 * USERS)]  # the first half are the adversary's own
    mixes = rng.dirichlet(np.full(CLASSES, 0.7), size=USERS).astype(np.float32)
    signatures = {layer.name: rng.normal(size=(USERS, layer.size)).astype(np.float32) for layer in LAYOUT}
    strangers = {layer.name: rng.normal(size=(USERS, layer.size)).astype(np.float32) for layer in LAYOUT}
    other_mixes = rng.dirichlet(np.full(CLASSES, 0.7), size=USERS).astype(np.float32)
    styles, other_styles = rng.uniform(-1, 1, (2, USERS, 2))
    accents = {layer.name: 5 * rng.normal(size=(2, layer.size)) for layer in LAYOUT}  # what a style does to an update
    for table, mix, style in ((signatures, mixes, styles), (strangers, other_mixes, other_styles)):
        for name, rows in table.items():
            rows += (style @ accents[name]).astype(np.float32)
        table["out"][:, LAYOUT[1].span("bias")] = 10 * (mix - mix.mean(axis=0))
    means = {
        name: np.concatenate([signatures[name], signatures[name] if leak else strangers[name]]) for name in signatures
    }
    Truth(
        users=users,
        device_user={name: users[i % USERS] for i, name in enumerate(names)},
        attributes=dict(zip(users, ABOUT, strict=True)),
    ).save(folder / "truth")
    Prior(
        candidates=users,
        examples=tuple(examples(mix, style, rng) for mix, style in zip(mixes, styles, strict=True)),
        task=Task.CLASSIFY,
        outputs=CLASSES,
        attributes=ABOUT,
    ).save(folder / "prior")
    header = Header(
        fingerprint=f"contract-{seed}-{leak}",
        rounds=ROUNDS,
        task=Task.CLASSIFY,
        model="made-up",
        layout=LAYOUT,
        devices=tuple(names),
        shadow=tuple(shadow),
    )
    writer = TraceWriter.open(folder / "trace", header)
    weights: Params = {layer.name: np.zeros(layer.size, dtype=np.float32) for layer in LAYOUT}
    writer.start(weights)
    for number in range(1, ROUNDS + 1):
        weights = append(writer, number, weights, means, rng)
    return folder


def append(
    writer: TraceWriter, number: int, weights: Params, means: dict[str, FloatArray], rng: np.random.Generator
) -> Params:
    """Add one round of noisy copies of the participants' signatures."""
    participants: IntArray = rng.choice(2 * USERS, PER_ROUND, replace=False)
    updates = {
        name: (mean[participants] + 1.5 * rng.normal(size=(PER_ROUND, mean.shape[1]))).astype(np.float32)
        for name, mean in means.items()
    }
    aggregate = {name: rows.mean(axis=0) for name, rows in updates.items()}
    after = {name: weights[name] + aggregate[name] for name in weights}
    writer.append(
        Round(
            number=number,
            participants=participants,
            sizes=np.full(PER_ROUND, 20, dtype=np.int64),
            updates=updates,
            aggregate=aggregate,
            weights=after,
        )
    )
    return after


def examples(mix: FloatArray, style: npt.NDArray[np.float64], rng: np.random.Generator) -> Examples:
    """Prior examples whose classes follow a mix: pictures of one stroke, slanted and thick as the style says."""
    labels = rng.choice(CLASSES, size=60, p=mix.astype(np.float64) / mix.astype(np.float64).sum())
    slant, thickness = (style + 0.2 * rng.normal(size=(60, 2))).T[:, :, None, None]
    y, x = np.mgrid[-5.5:6, -5.5:6]
    stroke = np.clip(2 + thickness - np.abs(x + slant * y), 0, 1) * (np.abs(y) < 5)
    return Examples(x=stroke[:, None].astype(np.float32), y=labels.astype(np.int64))


def write_federation(folder: Path, seed: int, *, leak: bool) -> Path:
    """Train a small federation and record it; without a leak, everybody's anonymous device holds a stranger's data."""
    rng = derive(seed, "contract federation", leak)
    teacher = rng.normal(size=(INPUTS - 1, CLASSES))

    def draw(mean: FloatArray, count: int) -> Examples:
        x = (mean + rng.normal(size=(count, INPUTS))).astype(np.float32)
        # Labels do not depend on the first input, which alone is what is marked.
        return Examples(x=x, y=(x[:, 1:] @ teacher).argmax(axis=1))

    def marked(data: Examples) -> npt.NDArray[np.int8]:
        return (data.x[:, 0] > 0).astype(np.int8)

    people, strangers = rng.normal(scale=0.3, size=(2, USERS, INPUTS)).astype(np.float32)
    for group in (people, strangers):
        group[:, 0] = rng.permutation(np.where(np.arange(USERS) < USERS // 3, 3, -3))
    users = [User(UserId(f"user-{i:02}"), draw(mean, 40), ABOUT[i]) for i, mean in enumerate(people)]
    held = [draw(mean, 40) for mean in (people if leak else strangers)]
    members = devices([Share(user, user.examples, mine) for user, mine in zip(users, held, strict=True)], seed)
    Truth(
        users=tuple(user.id for user in users),
        device_user={device.id: device.user for device in members},
        attributes={user.id: user.attributes for user in users},
        traits={user.id: {"marked": float(marked(user.examples).mean())} for user in users},
    ).save(folder / "truth")
    public = draw(np.where(rng.random((400, INPUTS)) < 0.5, 2, -2).astype(np.float32), 400)
    Prior(
        candidates=tuple(user.id for user in users),
        examples=tuple(user.examples for user in users),
        task=Task.CLASSIFY,
        outputs=CLASSES,
        attributes=ABOUT,
        background=Background(examples=public, shows={"marked": marked(public)}),
    ).save(folder / "prior")
    architecture = Mlp(hidden=(8,))
    model = architecture.build(Signature(Task.CLASSIFY, (INPUTS,), CLASSES))
    plan = FederationPlan(rounds=ROUNDS, fraction=PER_ROUND / (2 * USERS), lr=0.1, batch=10)
    header = Header(
        fingerprint=f"contract federation-{seed}-{leak}",
        rounds=ROUNDS,
        task=Task.CLASSIFY,
        model="mlp",
        layout=model.layout,
        devices=tuple(device.id for device in members),
        shadow=tuple(device.shadow for device in members),
        settings={**plain(plan), "architecture": plain(architecture), "input_shape": [INPUTS], "outputs": CLASSES},
    )
    writer = TraceWriter.open(folder / "trace", header)
    writer.start(initial(model, seed))
    for done in train(model, members, plan, (), None, seed):
        writer.append(done)
    return folder
