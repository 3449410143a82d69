"""Controls on both sides of chance, and what an audit says first."""

from __future__ import annotations

from typing import Any

import pytest
from test_tradeoff import score

from fedleak.results.audit import Finding, Score
from fedleak.score.controls import departure, warnings


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
