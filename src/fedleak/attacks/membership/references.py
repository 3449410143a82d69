"""Reference federations: what a model says of a record that was not in its training data.

The adversary trains them on other users' data. Where the audit has runs of other seeds with other users, these are
handed over (`Prior.references`); otherwise the attack trains some from public examples of known users.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.signals import confidence
from fedleak.attacks.shadow import settings
from fedleak.core import FloatArray, IntArray, Observation, UserId
from fedleak.errors import AttackError
from fedleak.federation.federation import Client, train
from fedleak.federation.model import Model
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior, Reference
from fedleak.views.view import View

__all__ = ["references", "train_reference", "calibrated", "rounds_of"]


def references(view: View, model: Model, prior: Prior, count: int, context: AttackContext) -> tuple[Reference, ...]:
    """As many references as there are, at most `count`."""
    if prior.references:
        return prior.references[:count]
    users = _public_users(prior)
    found = []
    for number in range(count):
        drawn = context.rng.permutation(len(users))[: max(2, len(users) // 2)]
        found.append(train_reference(view, model, [users[i] for i in drawn], int(context.rng.integers(2**62))))
        context.progress((number + 1) / (count + 1))
    return tuple(found)


def _public_users(prior: Prior) -> list[Examples]:
    """The public examples by user."""
    public = None if prior.background is None else prior.background.examples
    owners = np.zeros(0, dtype=np.int64) if public is None or public.owner is None else np.unique(public.owner)
    if public is None or public.owner is None or len(owners) < 4:
        raise AttackError(
            "the attack needs reference federations of other users: give the plan several seeds with disjoint = true "
            f"([population]), or public examples of at least 4 known users (background_users; there are {len(owners)})"
        )
    return [Examples(x=(mine := public.take(public.owner == owner)).x, y=mine.y) for owner in owners]


def train_reference(view: View, model: Model, clients: list[Examples], seed: int) -> Reference:
    """Train one federation as the observed one was trained, with the defences that the adversary knows of.

    It starts from the same initial model, if the adversary has seen that one.
    """
    start = None if view.adversary.lacks(Observation.SNAPSHOTS) else view.snapshot(0)
    known = [
        defence
        for defence in view.defences
        if not (
            defence.needs_background or defence.overrides("on_aggregation") or defence.overrides("on_participation")
        )
    ]
    plan = replace(settings(view), on_nan="skip")
    members = [Client(f"reference-{i}", UserId(f"reference-{i}"), -1, data) for i, data in enumerate(clients)]
    kept: dict[int, dict[str, FloatArray]] = {} if start is None else {0: dict(start)}
    wanted = rounds_of(plan.rounds)
    for done in train(model, members, plan, known, None, seed, weights=start):
        if done.number in wanted:
            kept[done.number] = dict(done.weights)
    return Reference(
        rounds=np.asarray(sorted(kept), dtype=np.int64),
        models={layer.name: np.stack([kept[n][layer.name] for n in sorted(kept)]) for layer in model.layout},
        clients=tuple(clients),
    )


def rounds_of(rounds: int, models: int = 12) -> IntArray:
    """Evenly spaced rounds, the last one included."""
    return np.unique(np.linspace(0, rounds, models + 1).round().astype(np.int64))[1:]


def calibrated(
    model: Model, view: View, given: tuple[Reference, ...], records: Examples
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The confidence of the finished model, (records,), and of the finished references, (references, records)."""
    models = {
        layer.name: np.stack([view.final[layer.name], *(one.models[layer.name][-1] for one in given)])
        for layer in model.layout
    }
    sure = confidence(model, view.task, models, records)
    return sure[0], sure[1:]
