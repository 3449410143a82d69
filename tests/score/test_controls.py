"""Controls on both sides of chance, and what an audit says first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_tradeoff import score

from fedleak.population.finding import UNBALANCED
from fedleak.results.audit import Finding, Score
from fedleak.score.controls import departure, detectable, warnings


def control(value: float, **more: Any) -> Score:
    return score(None, value, control="iid", chance_low=0.08, **more)


@pytest.mark.parametrize(
    ("value", "width", "expected"),
    [
        (0.3, 0.05, "above"),
        (0.3, 0.25, None),  # the interval holds chance
        (0.115, 0.01, None),  # luck reaches as far
        (0.04, 0.02, "below"),
        (0.085, 0.01, None),
        (0.1, 0.02, None),
    ],
)
def test_a_control_departs_where_interval_and_permutations_agree(
    value: float, width: float, expected: str | None
) -> None:
    assert departure(control(value, width=width)) == expected


@pytest.mark.parametrize("name", ["rotated-owners", "swapped-secrets"])
def test_where_a_right_answer_counts_as_wrong_only_scores_above_chance_are_off(name: str) -> None:
    assert departure(score(None, 0.04, control=name, chance_low=0.08, width=0.02)) is None
    assert departure(score(None, 0.3, control=name, chance_low=0.08, width=0.05)) == "above"


def test_a_control_that_is_off_in_either_direction_is_told_with_its_figures() -> None:
    told = warnings([control(0.3, attack="a"), control(0.04, attack="b"), control(0.1, attack="c")], {}, [])
    assert len(told) == 2
    assert "1 of 3 scores are above chance: a 0.30 [0.28, 0.32], chance 0.10 (iid control)" in told[0]
    assert "1 of 3 scores are below chance: b 0.040" in told[1]
    assert all(line.startswith("The control failed (server, identify)") for line in told)


def test_only_controls_under_which_a_game_has_nothing_to_find_are_judged() -> None:
    linked = [control(0.9, game="link")]
    assert not warnings(linked, {"link": ["fresh-data"]}, [])
    assert warnings(linked, {"link": ["iid"]}, [])
    assert not warnings([score(None, 0.9)], {}, []), "an undefended run is no control"


def test_a_stratified_split_is_told_before_any_verdict() -> None:
    findings = [Finding(kind="split", count=4, action=name, text=f"{name} split") for name in ("stratified", "half")]
    assert warnings([], {}, findings) == ["stratified split"]


def test_a_split_that_can_hide_leaks_is_told_before_any_verdict() -> None:
    finding = Finding(kind="split", count=4, action="independent", text=f"At random. {UNBALANCED}")
    assert warnings([], {}, [finding]) == [UNBALANCED]


def run(true: float, rng: np.random.Generator, users: int, per_user: int) -> Score:
    """A control of so many users, in which every question is answered correctly with this probability."""
    right = rng.binomial(per_user, true, users) / per_user
    boot = rng.choice(right, (300, users)).mean(axis=1)
    null = rng.binomial(users * per_user, 0.1, 300) / (users * per_user)
    low, high = (float(np.quantile(boot, q)) for q in (0.025, 0.975))
    least, most = (float(np.quantile(null, q)) for q in (0.025, 0.975))
    return score(
        None, float(right.mean()), control="iid", low=low, high=high, chance_low=least, chance_high=most, users=users
    )


@pytest.mark.parametrize(("users", "tests"), [(40, 1), (40, 5), (12, 2)])
def test_a_control_shows_what_it_is_said_to_detect_in_four_of_five_cases(users: int, tests: int) -> None:
    rng = np.random.default_rng(users + tests)
    shown = []
    for _ in range(60):
        least = detectable(run(0.1, rng, users, 10), tests)
        assert least is not None and least > 0.1
        shown += [departure(run(least, rng, users, 10), tests) == "above" for _ in range(10)]
    assert 0.7 < np.mean(shown) < 0.9


def test_more_users_detect_less_and_more_tests_detect_more() -> None:
    few, many = (detectable(control(0.1, width=width, users=users)) for width, users in ((0.05, 20), (0.01, 500)))
    assert few is not None and many is not None and many < few
    corrected = detectable(control(0.1, width=0.01, users=500), tests=20)
    assert corrected is not None and corrected > many


def test_a_control_without_a_single_hit_is_not_said_to_detect_everything() -> None:
    """Its interval has no width, but ten users cannot show a share of one in a thousand."""
    none = control(0.0, low=0.0, high=0.0, chance=1e-9, chance_high=1e-9, users=10)
    least = detectable(none)
    assert least is not None and least > 0.2


def test_a_control_in_which_luck_reaches_everything_detects_nothing() -> None:
    assert detectable(control(0.5, width=0.4, chance=0.5, chance_high=0.95, users=2), tests=2) is None
