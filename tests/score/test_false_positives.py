"""How often noise is called a leak, by game and number of users: at most as often as the level says."""

from __future__ import annotations

import pytest
from noise import GAMES, called, rate
from scipy import stats

FEW = ("identify, ap", "match prior, auc", "profile, ap", "link, matched", "extract, top1")


@pytest.mark.parametrize("game", FEW)
def test_noise_is_seldom_called_a_leak(game: str) -> None:
    found = [called(game, 12, 1, audit, permutations=40) for audit in range(40)]
    # 3 attacks in each of 40 audits; 7 or more of them are called a leak in 1 of 300 cases, at a rate of 5%.
    assert None not in found and sum(map(bool, found)) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("users", [2, 3, 4, 5, 6, 8, 12, 20, 40])
@pytest.mark.parametrize("game", GAMES)
def test_noise_is_called_a_leak_in_no_more_than_one_of_twenty_audits(game: str, users: int) -> None:
    audits = 200
    for seeds in (1, 2):
        share = rate(game, users, seeds, audits)
        print(f"{game}, {users} users, {seeds} seed(s): {share}")
        assert share is not None or users < 40
        assert users >= 5 or share is None
        # 0.1% of sound tests exceed this, at 200 audits 0.10.
        assert share is None or share <= float(stats.binom.isf(1e-3, audits, 0.05)) / audits
