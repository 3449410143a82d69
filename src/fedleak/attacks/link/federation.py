"""A simulated federation of shadow clients on the adversary's own machine (Song et al., 2020, section VI-B3).

The auxiliary set is distributed to shadow clients that train the same initial model in the same way. No data of real
clients is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedleak.attacks.shadow import settings
from fedleak.core import IntArray, Params, UserId
from fedleak.errors import AttackError
from fedleak.federation.federation import Client, train
from fedleak.federation.model import Model
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["auxiliary_set", "deal", "deal_users", "users_of", "shadow_rounds"]


def auxiliary_set(prior: Prior, outputs: int) -> Examples:
    """The server's auxiliary set, with every class in it."""
    background = prior.background
    if background is None or not len(background.examples) or background.examples.y is None:
        raise AttackError(
            "the adversary has no auxiliary data to train shadow clients on: choose a data set with background data "
            "(mnist-clients, faces, mnist-writers), or set background_users in [population]"
        )
    lacking = sorted(set(range(outputs)) - set(background.examples.y.tolist()))
    if lacking:
        raise AttackError(
            f"the auxiliary set has no example of {len(lacking)} of {outputs} classes (first: {lacking[0]}), so shadow "
            "clients would never show what an update with it looks like; use more auxiliary data"
        )
    return background.examples


def deal(examples: Examples, clients: int, classes: int, rng: np.random.Generator) -> list[Examples]:
    """Distribute examples to clients with `classes` classes each, using every example once.

    Every class goes to about the same number of clients, at random.
    """
    labels = np.asarray(examples.y)
    known = np.unique(labels)
    classes = min(classes, len(known))
    owners: dict[int, list[int]] = {int(label): [] for label in known}
    for client in range(clients):
        rarest = sorted(owners, key=lambda label: len(owners[label]) + rng.random())
        for label in rarest[:classes]:
            owners[label].append(client)
    rows: list[list[IntArray]] = [[] for _ in range(clients)]
    for label, mine in owners.items():
        pile = rng.permutation(np.flatnonzero(labels == label))
        for client, part in zip(mine, np.array_split(pile, max(1, len(mine))), strict=False):
            rows[client].append(part)
    dealt = [examples.take(np.sort(np.concatenate(parts))) for parts in rows]
    if min(map(len, dealt)) < 2:
        raise AttackError(
            f"the auxiliary set of {len(examples)} examples is too small for {clients} shadow clients with {classes} "
            "classes each; lower shadows ([[attack]] in the plan), or give the server more data"
        )
    return dealt


def users_of(examples: Examples) -> int:
    """How many users with at least two examples a set has; 0 if it is not known whose they are."""
    return 0 if examples.owner is None else int((np.bincount(examples.owner) > 1).sum())


def deal_users(examples: Examples, clients: int, rng: np.random.Generator) -> list[Examples]:
    """One user of the auxiliary set for each client: those with most examples, in random order."""
    if examples.owner is None or users_of(examples) < clients:
        raise AttackError(
            f"the auxiliary set has {users_of(examples)} known user(s) with two examples or more, too few for "
            f"{clients} shadow clients; lower shadows, or set shadow_data = 'classes' ([[attack]] in the plan)"
        )
    order = np.argsort(-np.bincount(examples.owner), kind="stable")[:clients]
    return [examples.take(np.flatnonzero(examples.owner == owner)) for owner in rng.permutation(order).tolist()]


def shadow_rounds(
    view: View, model: Model, shares: list[Examples], rounds: IntArray, seed: int
) -> Iterator[tuple[Params, Params]]:
    """Train the shadow clients from the initial model; of the rounds asked for, the model before and the updates."""
    clients = [Client(f"shadow-{i}", UserId(f"shadow-{i}"), -1, data) for i, data in enumerate(shares)]
    plan = replace(settings(view), rounds=int(rounds.max()), fraction=1.0, on_nan="skip")
    before = view.snapshot(0)
    # A defence-aware adversary applies the defences to its shadow clients, as far as one machine can simulate them.
    known = [
        defence
        for defence in view.defences
        if not (
            defence.needs_background or defence.overrides("on_aggregation") or defence.overrides("on_participation")
        )
    ]
    for done in train(model, clients, plan, known, None, seed, weights=before):
        if done.number in rounds and len(done.clients) == len(clients):
            order = np.argsort(done.clients)
            yield before, {name: values[order] for name, values in done.updates.items()}
        before = done.weights
