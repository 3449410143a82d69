"""Where clients trained on something else than what is asked about, nothing is found: 2 to 40 users, twenty seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedleak.attacks.membership.strong import MembershipStrong
from fedleak.attacks.source.strong import SourceStrong
from fedleak.games.membership import Membership
from fedleak.games.source import Source
from fedleak.games.traces.members import write_members
from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.metrics.membership import OWN, auc
from fedleak.metrics.source import TRAINED, top
from fedleak.score.decision import decide
from fedleak.testing.contract import play
from fedleak.views.adversaries import SERVER

SEEDS = 20


def measured(one: AttackResult) -> Measured:
    if one.game == "source":
        return top(1, TRAINED, [one], level=0.95, permutations=200)
    return auc(OWN, [one], level=0.95, permutations=200)


@pytest.mark.slow
@pytest.mark.parametrize("users", [2, 5, 10, 40])
@pytest.mark.parametrize(
    ("game", "attack", "instead"),
    [
        (Membership(records=40), MembershipStrong(references=2, rounds=4), "others"),
        (Source(records=16), SourceStrong(rounds=8), "strangers"),
    ],
    ids=["membership", "source"],
)
def test_nothing_is_found_in_records_that_no_client_trained_on(
    game: Any, attack: Any, instead: Any, users: int, tmp_path: Path
) -> None:
    runs = [write_members(tmp_path / str(i), i, leak=False, users=users, instead=instead) for i in range(SEEDS)]
    found = [measured(play(attack, game, SERVER, run, seed)) for seed, run in enumerate(runs)]
    gaps = np.array([one.value - one.chance for one in found])
    called = sum(decide(one, level=0.95).leaks is True for one in found)
    print(f"{game.name}, {users} users: {gaps.mean():+.3f} +- {gaps.std(ddof=1) / SEEDS**0.5:.3f}, {called} of {SEEDS}")
    assert abs(gaps.mean()) < 4 * gaps.std(ddof=1) / SEEDS**0.5 + 1e-9
    assert called <= 4  # at 5%, more would be seen once in 400 times
