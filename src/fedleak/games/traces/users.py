"""Runs of synthetic users for the contract: updates with their user's signature, or a small federation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedleak.core import FloatArray, IntArray, Layer, Layout, Observation, Params, Task, UserId, rng_for
from fedleak.federation.federation import Round, initial, make_clients, train
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.proxies import proxies as proxy_clients
from fedleak.games.traces.record import record
from fedleak.plan.plan import FederationPlan, ProxyPlan
from fedleak.population.population import Examples, Share, User
from fedleak.trace.header import Header
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter

__all__ = ["USERS", "write_for", "write_run", "write_sums", "write_federation"]

PROXY = ProxyPlan(traits=("marked",), clients=3)
USERS, ROUNDS, PER_ROUND, CLASSES, INPUTS = 12, 40, 8, 10, 6
ABOUT: tuple[Mapping[str, str], ...] = tuple({"group": ("even", "odd")[i % 2]} for i in range(USERS))
LAYOUT: Layout = (
    Layer("hidden", (("weight", (8, INPUTS)), ("bias", (8,)))),
    Layer("out", (("weight", (CLASSES, 8)), ("bias", (CLASSES,)))),
)


def write_for(needs: Observation) -> Callable[[Path, int, bool], Path]:
    """The contract trace for an attack with these needs: a real federation if it uses the shared model."""
    write = write_federation if Observation.SNAPSHOTS in needs else write_run
    return lambda folder, seed, leak: write(folder, seed, leak=leak)


def write_sums(folder: Path, seed: int, *, leak: bool) -> Path:
    """The run with a planted leak; without, the sums of its rounds are those of other clients."""
    return write_run(folder, seed, leak=True, sums=leak)


def write_run(folder: Path, seed: int, *, leak: bool, sums: bool = True) -> Path:
    """Write a trace, its truth and its prior as a real run would, from synthetic updates.

    `sums`: whether the sums are those of the updates.
    """
    rng = rng_for(seed, "contract trace", leak)
    users = tuple(UserId(f"user-{i:02}") for i in range(USERS))
    names = [f"d-{i:02}" for i in rng.permutation(2 * USERS)]
    shadow = [i if i < USERS else -1 for i in range(2 * USERS)]  # the first half are shadow clients
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
        client_user={name: users[i % USERS] for i, name in enumerate(names)},
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
        clients=tuple(names),
        shadow=tuple(shadow),
    )
    writer = TraceWriter.open(folder / "trace", header)
    weights: Params = {layer.name: np.zeros(layer.size, dtype=np.float32) for layer in LAYOUT}
    writer.start(weights)
    for number in range(1, ROUNDS + 1):
        weights = append(writer, number, weights, means, rng, sums=sums)
    return folder


def append(
    writer: TraceWriter,
    number: int,
    weights: Params,
    means: dict[str, FloatArray],
    rng: np.random.Generator,
    *,
    sums: bool = True,
) -> Params:
    """Add one round of noisy copies of the clients' signatures."""
    clients: IntArray = rng.choice(2 * USERS, PER_ROUND, replace=False)
    updates = {
        name: (mean[clients] + 1.5 * rng.normal(size=(PER_ROUND, mean.shape[1]))).astype(np.float32)
        for name, mean in means.items()
    }
    aggregate = {name: rows.mean(axis=0) for name, rows in updates.items()}
    if not sums:
        others: IntArray = rng.choice(2 * USERS, PER_ROUND, replace=False)
        aggregate = {name: mean[others].mean(axis=0) for name, mean in means.items()}
    after = {name: weights[name] + aggregate[name] for name in weights}
    writer.append(
        Round(
            number=number,
            clients=clients,
            sizes=np.full(PER_ROUND, 20, dtype=np.int64),
            updates=updates,
            aggregate=aggregate,
            weights=after,
        )
    )
    return after


def examples(mix: FloatArray, style: npt.NDArray[np.float64], rng: np.random.Generator) -> Examples:
    """Prior examples whose classes follow a mix: images of one stroke, slanted and thick as the style says."""
    labels = rng.choice(CLASSES, size=60, p=mix.astype(np.float64) / mix.astype(np.float64).sum())
    slant, thickness = (style + 0.2 * rng.normal(size=(60, 2))).T[:, :, None, None]
    y, x = np.mgrid[-5.5:6, -5.5:6]
    stroke = np.clip(2 + thickness - np.abs(x + slant * y), 0, 1) * (np.abs(y) < 5)
    return Examples(x=stroke[:, None].astype(np.float32), y=labels.astype(np.int64))


def write_federation(folder: Path, seed: int, *, leak: bool, proxies: bool = False) -> Path:
    """Train a small federation and record it; without a leak, every anonymous client has another user's data.

    `proxies`: whether proxy clients of the adversary take part.
    """
    rng = rng_for(seed, "contract federation", leak)
    teacher = rng.normal(size=(INPUTS - 1, CLASSES))

    def draw(mean: FloatArray, count: int) -> Examples:
        x = (mean + rng.normal(size=(count, INPUTS))).astype(np.float32)
        # Labels do not depend on the first input, which alone carries the mark.
        return Examples(x=x, y=(x[:, 1:] @ teacher).argmax(axis=1))

    def marked(data: Examples) -> npt.NDArray[np.int8]:
        return (data.x[:, 0] > 0).astype(np.int8)

    means, strangers = rng.normal(scale=0.3, size=(2, USERS, INPUTS)).astype(np.float32)
    for group in (means, strangers):
        group[:, 0] = rng.permutation(np.where(np.arange(USERS) < USERS // 3, 3, -3))
    users = [User(UserId(f"user-{i:02}"), draw(mean, 40), ABOUT[i]) for i, mean in enumerate(means)]
    held = [draw(mean, 40) for mean in (means if leak else strangers)]
    clients = make_clients([Share(user, user.examples, mine) for user, mine in zip(users, held, strict=True)], seed)
    Truth(
        users=tuple(user.id for user in users),
        client_user={client.id: client.user for client in clients},
        attributes={user.id: user.attributes for user in users},
        traits={user.id: {"marked": float(marked(user.examples).mean())} for user in users},
    ).save(folder / "truth")
    public = draw(np.where(rng.random((400, INPUTS)) < 0.5, 2, -2).astype(np.float32), 400)
    if proxies:
        clients = (*clients, *proxy_clients(PROXY, public, {"marked": marked(public)}, clients, seed))
    Prior(
        candidates=tuple(user.id for user in users),
        examples=tuple(user.examples for user in users),
        task=Task.CLASSIFY,
        outputs=CLASSES,
        attributes=ABOUT,
        background=Background(examples=public, shows={"marked": marked(public)}),
        proxies=PROXY.traits if proxies else (),
    ).save(folder / "prior")
    architecture = Mlp(hidden=(8,))
    plan = FederationPlan(rounds=ROUNDS, fraction=PER_ROUND / len(clients), lr=0.1, batch=10)
    signature = Signature(Task.CLASSIFY, (INPUTS,), CLASSES)
    rounds = train(architecture.build(signature), clients, plan, (), None, seed)
    start = initial(architecture.build(signature), seed)
    return record(folder, f"federation-{seed}-{leak}", architecture, signature, plan, clients, start, rounds)
