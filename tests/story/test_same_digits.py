"""A change of names or of structure leaves every digit of every score as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pinned import NAMES, PINS, machine, scores


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_the_pinned_ones(name: str, tmp_path: Path) -> None:
    pinned = json.loads(PINS.read_text(encoding="utf-8"))
    found, kept = scores(name, tmp_path), pinned["scores"][name]
    assert set(found) == set(kept)
    if pinned["machine"] == machine():
        assert found == kept
    else:  # other processors and versions round differently, and training makes more of it
        apart = [key for key in kept if not overlap(found[key], kept[key])]
        assert apart == []


def overlap(one: list[float], other: list[float]) -> bool:
    """Whether the intervals of two scores (value, low, high, chance) have a value in common."""
    return one[1] <= other[2] and other[1] <= one[2]
