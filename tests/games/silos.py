"""Synthetic runs of silos: each client holds the data of many users, and each user has a shadow client."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from fedleak.core import Layer, Task, UserId, rng_for
from fedleak.federation.federation import Round
from fedleak.population.population import Examples
from fedleak.trace.header import Header
from fedleak.trace.prior import Prior
from fedleak.trace.truth import Truth
from fedleak.trace.writer import TraceWriter

LAYOUT = (Layer("out", (("weight", (4, 5)),)),)
WIDTH, ROUNDS = LAYOUT[0].size, 4

Leak = Literal["nothing", "clusters", "shared"]


def write_silos(folder: Path, seed: int, sizes: Sequence[int], leak: Leak) -> Path:
    """Write a run of clients with so many users each.

    nothing: users are alike, and clients differ by chance. clusters: users of one client resemble each other, and its
    updates have nothing to do with it. shared: its updates do.
    """
    rng = rng_for(seed, "silos", leak)
    home = np.repeat(np.arange(len(sizes)), sizes)
    users = [UserId(f"p-{i:03}") for i in range(len(home))]
    style, other = rng.normal(size=(2, len(sizes), WIDTH))
    own = 0.5 * rng.normal(size=(len(users), WIDTH)) + (0 if leak == "nothing" else 1) * style[home]
    sent = style if leak == "shared" else other
    names = [f"c-{number:08x}" for number in rng.choice(1 << 31, len(sizes) + len(users), replace=False)]
    Truth(
        users=tuple(users),
        client_user=dict(zip(names[len(sizes) :], users, strict=True)),
        attributes={},
        silos={name: f"hospital-{i}" for i, name in enumerate(names[: len(sizes)])},
        homes={user: f"hospital-{at}" for user, at in zip(users, home, strict=True)},
    ).save(folder / "truth")
    Prior(
        candidates=tuple(users),
        examples=tuple(Examples(x=np.zeros((2, 3), np.float32), y=np.zeros(2, np.int64)) for _ in users),
        task=Task.CLASSIFY,
        outputs=2,
    ).save(folder / "prior")
    header = Header(
        fingerprint=f"silos {seed} {leak}",
        rounds=ROUNDS,
        task=Task.CLASSIFY,
        model="made-up",
        layout=LAYOUT,
        clients=tuple(names),
        shadow=(*[-1] * len(sizes), *range(len(users))),
    )
    writer = TraceWriter.open(folder / "trace", header)
    weights = {"out": np.zeros(WIDTH, np.float32)}
    writer.start(weights)
    means = np.concatenate([sent, own])
    for number in range(1, ROUNDS + 1):
        clients = rng.permutation(len(names))
        updates = (means[clients] + 0.3 * rng.normal(size=(len(clients), WIDTH))).astype(np.float32)
        writer.append(
            Round(
                number=number,
                clients=clients,
                sizes=np.full(len(clients), 10, dtype=np.int64),
                updates={"out": updates},
                aggregate={"out": updates.mean(axis=0)},
                weights=weights,
            )
        )
    return folder
