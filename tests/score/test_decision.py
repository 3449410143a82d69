"""What makes a leak: the corrected test, the upper end of chance, and enough users."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from played_games import users

from fedleak.metrics.attack_result import AttackResult, Measured
from fedleak.score.score import decide, verdict
from scored import measure


def identify(count: int, skill: float, seed: int = 0) -> AttackResult:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(count), 5)
    claims = rng.normal(size=(count, count))[who] + rng.normal(size=(len(who), count)) + skill * np.eye(count)[who]
    return AttackResult(seed, claims.astype(np.float32), who, users(count), "identify", who, users(count))


def measured(count: int, skill: float, seed: int = 0, permutations: int = 999) -> Measured:
    return measure([identify(count, skill, seed)], "ap", level=0.95, permutations=permutations)


def test_an_obvious_leak_is_one_among_any_number_of_attacks() -> None:
    leak = measured(22, 5.0)
    assert leak.value > 0.8 and leak.chance < 0.2
    tried = [leak, *(measured(22, 0.0, seed) for seed in range(1, 10))]
    found = decide(leak, level=0.95, tried=tried)
    assert found.leaks and found.p == pytest.approx(0.001)
    assert verdict(leak, found).endswith("p = 0.001")


def test_the_luckiest_of_many_attacks_is_not_judged_as_if_it_were_the_only_one() -> None:
    tried = [measured(12, 0.0, seed) for seed in range(40)]
    lucky = min(tried, key=lambda one: decide(one, level=0.95).p)
    assert decide(lucky, level=0.95).leaks
    assert not decide(lucky, level=0.95, tried=tried).leaks


def test_a_wide_null_does_not_hide_another_attack() -> None:
    clear = measured(12, 2.5)
    assert clear.permuted is not None
    wide = replace(clear, permuted=10 * clear.permuted, by_seed=(10 * float(clear.permuted.mean()),))
    assert decide(clear, level=0.95, tried=[clear, wide]).leaks


@pytest.mark.parametrize("count", [2, 3, 4])
def test_no_verdict_is_given_about_few_users(count: int) -> None:
    found = measured(count, 9.0)
    assert decide(found, level=0.95).leaks is None
    told = verdict(found, decide(found, level=0.95))
    assert told == f"no verdict: {count} users are too few (at least 5)"
    assert decide(measured(5, 9.0), level=0.95).leaks


def test_a_score_within_the_chance_level_is_no_leak_whatever_its_p_value() -> None:
    leak = measured(12, 2.5)
    assert decide(leak, level=0.95).leaks
    assert decide(replace(leak, chance_high=leak.value), level=0.95).leaks is False


def test_the_lower_end_of_the_interval_alone_makes_no_leak() -> None:
    nothing = measured(12, 0.0)
    assert decide(replace(nothing, low=0.9, high=1.0), level=0.95).leaks is False


def test_the_interval_for_all_attacks_is_that_of_a_higher_level() -> None:
    one = measured(20, 1.0)
    alone, among = (decide(one, level=0.95, tried=[one] * count).everywhere for count in (1, 10))
    assert (alone.low, alone.high) == (one.low, one.high)
    assert among.low < alone.low and among.high > alone.high
    assert one.ends is not None and among == one.ends(0.995)


def test_the_same_predictions_give_the_same_verdict() -> None:
    first, again = (decide(measured(12, 1.0), level=0.95) for _ in range(2))
    assert first == again
