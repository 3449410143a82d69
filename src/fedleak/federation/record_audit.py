"""Does a record-level epsilon hold? Many canary records, each in or out by a coin of its own, in one training.

Whoever sees all updates guesses for each canary whether it was in, from the size of the step along the canary's own
gradient, and may pass. If more guesses are right than a mechanism with the stated epsilon and delta allows, the
statement is wrong (Steinke, Nasr and Jagielski, 2023). One training suffices, because the coins are independent.

The clients' number of examples, their batches and steps are those of the run. A canary that is out leaves a blank
in its place: the number of examples is public. The model is the one that the server may choose to hear them best, and
as many rounds are trained as give an epsilon that guesses can contradict: a few thousand guesses, all of them right,
show an epsilon of at most 7 or so, and much less of a large one.

The result is a lower bound with 95% confidence. A statement that it does not contradict is not proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import numpy.typing as npt

from fedleak.core import Task, rng_for
from fedleak.federation.canaries import Values
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, one_thread
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.privacy import Training
from fedleak.lazy import stats
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["OneRun", "audit_records", "p_value", "shown_by_guesses"]

Coins = npt.NDArray[np.bool_]

_LEVEL = 0.95
_CANARIES = 20_000
_MOST_RECORDS = 100  # on a client of the audit
_HEARD = 2.0  # an epsilon that so many guesses can contradict if the noise is a few times too small
_STEPS = 40_000  # local steps of all clients: seconds
_SHARES = (0.02, 0.1, 0.4)  # of the canaries that are guessed about, most certain first; each costs confidence
_LOUD = 1e6  # the length of a canary: any clip must bound its gradient
_LR = 1e-12  # so that no canary is learnt, and every step along it is as long as the first


class OneRun(msgspec.Struct, frozen=True, kw_only=True):
    """What canary records in one training showed."""

    stated: float  # the epsilon of the rounds that were trained
    delta: float  # at which it is stated
    rounds: int
    canaries: int
    sampling: str  # how canaries were drawn into batches
    shown: float  # lower bound on that epsilon, with 95% confidence
    most: float  # what it would be if every guess were right

    @property
    def contradicted(self) -> bool:
        """Whether more is given away than is stated."""
        return self.shown > self.stated


def audit_records(
    defences: Sequence[Defence], place: int, training: Training, settings: FederationPlan, seed: int
) -> OneRun | None:
    """Train on canary records; None where the defence at this position states nothing about records.

    Once as the run samples them, and once with every record in every step, where guesses tell more about the noise; the
    one that shows more of what is stated is returned, and both share the confidence.
    """
    if settings.train is not None or defences[place].privacy(training).unit != "record":
        return None
    size = min(*training.sizes, _MOST_RECORDS)
    batches = dict.fromkeys((min(settings.batch, size), size))
    level = 1 - (1 - _LEVEL) / len(batches)
    found = [_audited(defences, place, training, replace(settings, batch=b), size, seed, level) for b in batches]
    return max(found, key=lambda one: one.shown / one.stated)


def _audited(
    defences: Sequence[Defence],
    place: int,
    training: Training,
    settings: FederationPlan,
    size: int,
    seed: int,
    level: float,
) -> OneRun:
    clients = math.ceil(_CANARIES / size)
    about = replace(training, sizes=(size,) * clients, batch=settings.batch)
    rounds = _rounds(defences[place], about, settings, size, clients)
    stated = defences[place].privacy(replace(about, rounds=rounds, most=rounds))
    assert stated.epsilon is not None and stated.delta is not None
    scores, coins = _guessable(defences, settings, size, clients, rounds, seed)
    return OneRun(
        stated=stated.epsilon,
        delta=stated.delta,
        rounds=rounds,
        canaries=len(coins),
        sampling="every record in every step" if settings.batch == size else "sampled as in the run",
        shown=shown_by_guesses(scores, coins, stated.delta, level),
        most=shown_by_guesses(np.where(coins, 1.0, -1.0), coins, stated.delta, level),
    )


def shown_by_guesses(scores: Values, coins: Coins, delta: float, level: float = _LEVEL) -> float:
    """A lower confidence bound on epsilon from one score for each canary, which should be high where it was in.

    The highest scores are guessed to be in and as many of the lowest to be out. How many is tried in a few ways that
    are fixed beforehand, and the confidence is shared among them.
    """
    order = np.argsort(-scores, kind="stable")
    found = 0.0
    for share in _SHARES:
        half = max(1, int(len(scores) * share / 2))
        right = int(coins[order[:half]].sum()) + int((~coins[order[-half:]]).sum())
        found = max(found, _least_epsilon(len(scores), 2 * half, right, delta, (1 - level) / len(_SHARES)))
    return found


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """How likely so many right guesses are at most, if epsilon and delta hold (Steinke et al., 2023, theorem 5.2)."""
    each = 1 / (1 + math.exp(-epsilon))  # how often a guess about randomised response with this epsilon is right
    by_chance = float(stats.binom.sf(right - 1, guesses, each))
    if not delta or not right:
        return min(1.0, by_chance)
    # What delta may add: failures that turn the i guesses that were missing into right ones.
    missing = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, each))
    largest = float(np.max(missing / np.arange(1, right + 1)))
    return min(1.0, by_chance + 2 * canaries * delta * largest)


def _least_epsilon(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    """The largest epsilon that so many right guesses rule out."""
    low, high = 0.0, 30.0
    if p_value(canaries, guesses, right, low, delta) > alpha:
        return 0.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(canaries, guesses, right, middle, delta) <= alpha else (low, middle)
    return low


def _rounds(defence: Defence, about: Training, settings: FederationPlan, size: int, clients: int) -> int:
    """The most rounds whose epsilon guesses can contradict, within what the run has and seconds allow."""

    def quiet(rounds: int) -> bool:
        epsilon = defence.privacy(replace(about, rounds=rounds, most=rounds)).epsilon
        return epsilon is not None and epsilon <= _HEARD

    steps = clients * settings.epochs * math.ceil(size / settings.batch)
    low, high = 1, max(1, min(about.most, _STEPS // steps))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if quiet(middle) else (low, middle - 1)
    return low


def _guessable(
    defences: Sequence[Defence], settings: FederationPlan, size: int, clients: int, rounds: int, seed: int
) -> tuple[Values, Coins]:
    """A score for each canary, and whether it was in; trained by the real engine."""
    rng = rng_for(seed, "canary coins")
    coins = rng.random((clients, size)) < 0.5
    y = rng.integers(2, size=(clients, size))
    model = Mlp(hidden=()).build(Signature(Task.CLASSIFY, (size,), 2))
    layer = model.layout[0]
    # Each canary has an input of its own, so no other moves the two weights behind it.
    data = [
        Examples(x=(np.eye(size) * _LOUD * coins[client][:, None]).astype(np.float32), y=y[client])
        for client in range(clients)
    ]
    start = {layer.name: np.zeros(layer.size, dtype=np.float32)}
    plan = replace(settings, lr=_LR, optimizer="sgd", clip=None)
    names = [f"canaries {client}" for client in range(clients)]
    engine = Embedded(model, Task.CLASSIFY, plan, Pool.of(data, names), defences, 1, [True] * clients)
    scores = np.zeros((clients, size))
    # The steps of a canary that is in raise the answer that it is labelled with, and lower the other.
    sign = np.stack([1.0 - 2.0 * y, 2.0 * y - 1.0], axis=1)
    for number in range(rounds):

        def draws(stage: str, client: int, number: int = number) -> np.random.Generator:
            return rng_for(seed, "one run", stage, number, client)

        with one_thread():
            rows = engine.updates(start, range(clients), draws)
        weights = rows[layer.name][:, layer.span("weight")].numpy().astype(np.float64).reshape(clients, 2, size)
        scores += (sign * weights).sum(1)
    return scores.reshape(-1), coins.reshape(-1)
