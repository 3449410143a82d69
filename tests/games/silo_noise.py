"""How often nothing is called a leak where users are behind clients, if clients are permuted and if users were.

`python tests/games/silo_noise.py 100` prints the shares over 100 synthetic runs of six clients with eight users.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from silos import Leak, write_silos

from fedleak import registry
from fedleak.attacks.context import AttackContext
from fedleak.core import rng_for
from fedleak.games.match import Match
from fedleak.metrics.attack_result import AttackResult
from fedleak.score.score import decide, measure, metric_of
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import ANONYMOUS_SERVER


def attacked(folder: Path, game: Match) -> AttackResult:
    """Cosine similarity between a user's shadow update and a client's update."""
    trace, truth, prior = Trace.open(folder / "trace"), Truth.load(folder / "truth"), Prior.load(folder / "prior")
    given = game.ask(trace, truth, prior, rng_for(0, "game"))
    view, questions = given.look(folder / "trace", ANONYMOUS_SERVER)
    attack = registry.load("attack", "match-cosine")()
    claims = attack.run(view, given.prior, questions, AttackContext(rng_for(0, "attack"), memory=100))
    return AttackResult.of(0, claims, "match", questions.options, 1, given.answers)


def permuting_users(result: AttackResult) -> AttackResult:
    """The same predictions, with users in the places of their clients."""
    answers = result.answers
    assert answers is not None and answers.cells is not None and answers.behind is not None
    place, user, number = answers.cells[:, 1], answers.behind, answers.cells[:, 3]
    order = np.lexsort((number, user, place))
    fresh = np.append(True, (np.diff(place[order]) != 0) | (np.diff(user[order]) != 0))
    at = np.arange(len(order))
    within = np.empty_like(number)
    within[order] = at - np.maximum.accumulate(np.where(fresh, at, 0))
    changed = replace(
        answers,
        cells=np.column_stack([answers.cells[:, 0], place, user, within]),
        who=np.stack([user, user], axis=1),
        users=tuple(map(str, range(int(user.max()) + 1))),
        behind=None,
    )
    assert result.asked is not None
    return AttackResult.of(0, result.asked, "match", result.options, 1, changed)


def rate(leak: Leak, seeds: int, *, by_user: bool) -> float:
    """The share of runs that are called a leak."""
    game, hits = Match(pairs=4000), 0
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            result = attacked(write_silos(Path(folder), seed, [8] * 6, leak), game)
        found = measure(
            [permuting_users(result) if by_user else result], metric_of(game, "ap"), level=0.95, permutations=100
        )
        hits += bool(decide(found, level=0.95).leaks)
    return hits / seeds


def show(seeds: int) -> None:
    """Print the shares."""
    kinds: tuple[Leak, ...] = ("nothing", "clusters")
    for leak in kinds:
        for by_user in (False, True):
            share = rate(leak, seeds, by_user=by_user)
            print(f"{leak}, permuting {'users' if by_user else 'clients'}: {share:.2f}", flush=True)


if __name__ == "__main__":
    show(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
