"""Which attack is the strongest, and what it shows."""

from __future__ import annotations

from test_tradeoff import score

from fedleak.score.strongest import any_leaks, interval_of, leaks, strongest


def test_the_strongest_cannot_rise_where_every_attack_falls() -> None:
    """By the lower ends, the first run would be judged by a (0.5) and the second by b (0.59)."""
    before = [score(None, 0.5, attack="a", low=0.45), score(None, 0.6, attack="b", low=0.4)]
    after = [score(None, 0.48, attack="a", low=0.38), score(None, 0.59, attack="b", low=0.39)]
    first, second = strongest(before), strongest(after)
    assert first is not None and second is not None
    assert (first.value, second.value) == (0.6, 0.59)
    assert strongest([]) is None


def test_the_strongest_of_distances_is_the_nearest() -> None:
    far, near = (score(None, value, distance=True, chance=8.0) for value in (6.0, 2.0))
    assert strongest([far, near]) is near
    assert leaks(near) is True
    assert leaks(score(None, 8.0, distance=True, chance=8.0)) is False


def test_a_test_decides_before_an_interval_and_none_is_kept() -> None:
    assert leaks(score(None, 0.9)) is True
    assert leaks(score(None, 0.9, leaks=False)) is False
    assert leaks(score(None, 0.9, leaks=None, p=0.01)) is None
    assert any_leaks([score(None, 0.1, leaks=None, p=1.0), score(None, 0.9)]) is True
    assert any_leaks([score(None, 0.1, leaks=None, p=1.0), score(None, 0.1)]) is None
    assert any_leaks([score(None, 0.1)]) is False


def test_the_interval_of_the_strongest_is_the_one_for_all() -> None:
    assert interval_of(score(None, 0.5, all_low=0.3, all_high=0.8)) == (0.3, 0.8)
    assert interval_of(score(None, 0.5, width=0.25)) == (0.25, 0.75)
