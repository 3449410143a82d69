"""Does the epsilon that a defence states hold? Canaries, outlying data, are sent through the defence many times.

If an observer can tell from what is sent whether the canary was there, more often than epsilon allows, the statement is
wrong (Jagielski et al., 2020; Nasr et al., 2021). A statement that is not contradicted is not proved: the test covers
one round and one canary. So few trials show an epsilon of at most 4.9, however much is given away; a larger one is not
tested at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fedleak.core import Params, Task, rng_for
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread, tensors
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.privacy import Statement, Training
from fedleak.lazy import stats, torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["LOUD", "Tested", "Values", "put_to_the_test", "shown"]

Values = npt.NDArray[np.float64]

_TRIALS = 1000  # with the canary, and as many without
LOUD = 1e3  # how far the canary stands out: any clip must bound it
_MOST_RECORDS = 100  # on a client of the test: what one record does is drowned in more


def shown(inside: Values, outside: Values, delta: float, level: float = 0.95) -> float:
    """A lower confidence bound on epsilon from the scores; 0 if they show nothing.

    Half of the scores choose a threshold, the others are counted at it, so that the choice does not profit from luck.
    Exact limits of Clopper and Pearson (1934) bound both shares.
    """

    def bounds(a: Values, b: Values, threshold: float, each: float) -> float:
        """From how often `a` lies above the threshold and `b` does not stay below."""
        hits, alarms = int((a > threshold).sum()), int((b > threshold).sum())
        low = float(stats.beta.ppf(each, hits, len(a) - hits + 1)) if hits else 0.0
        high = float(stats.beta.ppf(1 - each, alarms + 1, len(b) - alarms)) if alarms < len(b) else 1.0
        return math.log((low - delta) / high) if low > delta else 0.0

    each = (1 - level) / 2
    sides = [(inside, outside), (-outside, -inside)]  # told by what is high, or by what is low
    tries = [
        (bounds(a[::2], b[::2], float(threshold), each), side, float(threshold))
        for side, (a, b) in enumerate(sides)
        for threshold in np.quantile(np.concatenate([a[::2], b[::2]]), np.linspace(0.01, 0.99, 99))
    ]
    _, side, threshold = max(tries)
    a, b = sides[side]
    return max(0.0, bounds(a[1::2], b[1::2], threshold, each))


class Tested:
    """What the canaries of one defence showed, for a round in which a client takes part."""

    def __init__(self, claimed: float, delta: float, shown: float, most: float) -> None:
        self.claimed, self.delta, self.shown, self.most = claimed, delta, shown, most

    @property
    def contradicted(self) -> bool:
        """Whether more is given away than is stated."""
        return self.shown > self.claimed


def put_to_the_test(
    defences: Sequence[Defence], place: int, training: Training, settings: FederationPlan, seed: int
) -> Tested | None:
    """Send canaries through the defences, and compare with what the one at this position states."""
    once = replace(training, rounds=1, most=1, sizes=(min(*training.sizes, _MOST_RECORDS),))
    statement = defences[place].privacy(once)
    if statement.per_round is None or statement.delta is None:
        return None
    inside, outside = (
        _records(defences, once, settings, seed)
        if statement.unit == "record"
        else _clients(defences, statement, once, seed)
    )
    most = shown(np.ones(_TRIALS), np.zeros(_TRIALS), statement.delta)  # nothing can be told apart better
    return Tested(statement.per_round, statement.delta, shown(inside, outside, statement.delta), most)


def _clients(defences: Sequence[Defence], statement: Statement, training: Training, seed: int) -> tuple[Values, Values]:
    """One client sends a huge update in one direction, or in the opposite one; the others send nothing."""
    direction = rng_for(seed, "canary").standard_normal(64).astype(np.float32)
    direction /= np.linalg.norm(direction)
    shares = np.full(training.selected, 1 / training.selected, dtype=np.float32)
    scores = np.empty((2, _TRIALS))
    for side, sign in enumerate((1.0, -1.0)):
        for trial in range(_TRIALS):
            update: Params = {"canary": np.float32(sign * LOUD**2) * direction}
            for n, defence in enumerate(defences):
                update = defence.on_update(update, rng_for(seed, "canary", side, trial, n))
            if statement.seen == "model":
                update = {"canary": update["canary"] * shares[0]}
                for n, defence in enumerate(defences):
                    update = defence.on_aggregate(update, shares, rng_for(seed, "canary mean", side, trial, n))
            scores[side, trial] = float(update["canary"] @ direction)
    return scores[0], scores[1]


def _records(
    defences: Sequence[Defence], training: Training, settings: FederationPlan, seed: int
) -> tuple[Values, Values]:
    """Clients with and without one record whose gradient points where no other's does, trained by the real engine.

    Without it there is a blank in its place: how many examples a client has is public, and so are its steps.
    """
    size, rng = training.sizes[0], rng_for(seed, "canary records")
    model = Mlp(hidden=(4,)).build(Signature(Task.CLASSIFY, (5,), 2))
    # The others are blank, and move nothing but the last bias, so that the canary is heard.
    x = np.zeros((size, 5), dtype=np.float32)
    x[0] = LOUD
    start = model.init(rng_for(seed, "canary weights"))
    for layer in model.layout:
        start[layer.name][layer.span("bias")] = 0.0
    answered = model.forward(tensors(model, start), torch.from_numpy(x[None, :1])).squeeze()
    y = rng.integers(2, size=size)
    y[0] = int(answered.argmin())  # what the model thinks least likely: one that it got right would teach it nothing
    data = Examples(x=x, y=y)
    # Little movement: what is asked is what a round gives away, not what a model becomes.
    plan = replace(settings, lr=1e-3, optimizer="sgd", clip=None)

    def updates(clients: list[Examples], guarded: bool) -> Values:
        pool = Pool.of(clients, [f"canary {n}" for n in range(len(clients))])
        used = defences if guarded else ()
        engine = Embedded(model, Task.CLASSIFY, plan, pool, used, 1, [guarded] * len(clients))
        with one_thread():
            rows = engine.updates(start, range(len(clients)), lambda stage, d: rng_for(seed, stage, len(clients), d))
        return np.concatenate([values.numpy() for values in rows.values()], 1).astype(np.float64)

    blank = x.copy()
    blank[0] = 0.0
    without = Examples(x=blank, y=y)
    direction = updates([data.take(np.arange(1))], guarded=False)[0]
    direction[updates([without], guarded=False)[0] != 0] = 0.0
    direction /= np.linalg.norm(direction)
    # One more without, so that the two kinds draw other numbers.
    inside, outside = updates([data] * _TRIALS, guarded=True), updates([without] * (_TRIALS + 1), guarded=True)
    return inside @ direction, outside @ direction
