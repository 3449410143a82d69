"""Does the epsilon of a whole run hold? Canary clients with random directions take part in all of it.

Each canary sends the same loud update in every round, along a direction of its own or against it, through the defences
and the server of the run (Andrew et al., 2024). Whoever sees what the statement is about adds it up and looks along
each direction: the clearer the two signs come apart, the larger the epsilon that must have been spent. All other
clients send nothing, and the canaries' directions are orthogonal: an adversary may know everybody else's data, so a
statement has to hold here, too.

The result is a lower bound with 95% confidence. A statement that it does not contradict is not proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedleak.core import Params, UserId, rng_for
from fedleak.federation.accountants import gaussian
from fedleak.federation.aggregation import Aggregator
from fedleak.federation.canaries import LOUD, Values, shown
from fedleak.federation.federation import Client, select_clients
from fedleak.federation.hooks import Defence
from fedleak.federation.privacy import Statement, Training
from fedleak.federation.tampering import Isolation
from fedleak.federation.update_pipeline import apply_update_defences
from fedleak.lazy import stats, torch
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

__all__ = ["shown_by_signs", "shown_over_run"]

_UPDATES = 50_000  # in all rounds of all repetitions: seconds
_FEWEST, _MOST = 100, 1000  # canaries
_LAYER = "canary"
_ODD = 1e-3  # below this p-value the scores are not taken for Gaussian


def shown_over_run(
    defences: Sequence[Defence], statement: Statement, training: Training, settings: FederationPlan, seed: int
) -> float | None:
    """A lower bound on the epsilon of the whole run, for one client; None where the statement is about records."""
    if statement.epsilon is None or statement.delta is None or statement.unit != "client":
        return None
    skips = any(defence.overrides("on_participation") for defence in defences)
    # The statement covers a client that is there whenever it may be.
    plan = replace(settings, rounds=training.rounds if skips else training.most, fraction=1.0)
    wanted = min(_MOST, max(_FEWEST, _UPDATES // plan.rounds))
    scores = [
        _scores(defences, statement, training.selected, plan, seed, repetition)
        for repetition in range(math.ceil(wanted / training.selected))
    ]
    return shown_by_signs(np.concatenate([one for one, _ in scores]), np.concatenate([s for _, s in scores]), statement)


def shown_by_signs(scores: Values, signs: Values, statement: Statement, level: float = 0.95) -> float:
    """A lower confidence bound on epsilon from one score for each canary, which should have the canary's sign.

    Where the scores are Gaussian, as noise makes them, two such distributions are as far apart as those of a Gaussian
    mechanism, whose epsilon is known exactly; the confidence limits are those of a mean and of a standard deviation.
    Other scores are counted at a threshold, which shows less.
    """
    assert statement.delta is not None
    right = scores * signs
    spread = float(right.std(ddof=1))
    if not spread:
        return math.inf if right[0] > 0 else 0.0
    if float(stats.normaltest(right).pvalue) < _ODD:
        return shown(scores[signs > 0], scores[signs < 0], statement.delta, level)
    each, free = (1 - level) / 2, len(right) - 1
    middle = float(right.mean()) - float(stats.t.ppf(1 - each, free)) * spread / math.sqrt(len(right))
    widest = spread * math.sqrt(free / float(stats.chi2.ppf(each, free)))
    # The two distributions lie on either side of zero.
    return gaussian(widest / (2 * middle), 1, statement.delta).epsilon if middle > 0 else 0.0


def _scores(
    defences: Sequence[Defence],
    statement: Statement,
    canaries: int,
    plan: FederationPlan,
    seed: int,
    repetition: int,
) -> tuple[Values, Values]:
    """What an observer of the whole run sees along each canary's direction, and the signs that it should see."""
    rng = rng_for(seed, "canary run", repetition)
    own = int(rng.integers(2**62))  # the seed of all draws of this repetition
    directions = np.linalg.qr(rng.standard_normal((max(64, 2 * canaries), canaries)))[0].T.astype(np.float32)
    signs = rng.choice([-1.0, 1.0], canaries)
    loud = (directions * (signs[:, None] * LOUD**2)).astype(np.float32)
    nothing = Examples(x=np.zeros((1, 1), dtype=np.float32), y=np.zeros(1, dtype=np.int64))
    clients = [Client(f"canary {n}", UserId(f"canary {n}"), -1, nothing) for n in range(canaries)]
    aggregator = Aggregator(plan, defences, Isolation({}, ()), own)
    scores, past = np.zeros(canaries), list[list[int]]()
    for number in range(1, plan.rounds + 1):
        present = select_clients(clients, plan.fraction, defences, past, own)
        past.append(present)
        if not present:
            continue
        ids = [clients[n].id for n in present]
        rows = {_LAYER: torch.from_numpy(loud[present])}
        apply_update_defences(
            rows,
            ids,
            [True] * len(ids),
            defences,
            lambda place, row, n=number, ids=ids: rng_for(own, "on_update", place, n, ids[row]),  # type: ignore[misc]
            f"canaries, round {number}",
        )
        sent: Params = {_LAYER: rows[_LAYER].numpy()}
        done = aggregator.add_up(number, sent, np.array(present), np.ones(len(present), dtype=np.int64))
        if statement.seen == "model":
            scores[present] += directions[present] @ done.aggregate[_LAYER].astype(np.float64)
        else:
            scores[present] += np.einsum("ij,ij->i", directions[present], sent[_LAYER].astype(np.float64))
    return scores, signs
