"""Made-up users with habits: personal, reproducible, and disjoint from the test and background sets."""

from __future__ import annotations

import numpy as np

from fedleak.population import fingerprint
from fedleak.population.data_quality import twin_groups
from fedleak.population.datasets.digits import Digits


def test_digits_have_the_announced_shape_and_range() -> None:
    population = Digits(users=5, examples=30).load(1)
    assert len(population.users) == 5
    for user in population.users:
        assert user.examples.x.shape == (30, 1, 8, 8)
        assert user.examples.x.dtype == np.float32
        assert 0 <= user.examples.x.min() <= user.examples.x.max() <= 1
        assert set(user.attributes) == {"slant", "stroke"}


def test_users_hold_no_digit_twice_and_none_of_the_test_or_background_sets() -> None:
    # Without style a digit is the same for everyone, so copies would show.
    population = Digits(users=6, examples=100, style=0).load(0)
    assert population.test is not None
    assert population.background is not None
    seen = {x.tobytes() for rows in (population.test, population.background) for x in rows.x}
    assert len(seen) == len(population.test) + len(population.background)
    for user in population.users:
        own = {x.tobytes() for x in user.examples.x}
        assert len(own) == 100
        assert not own & seen


def test_one_digit_in_two_hands_is_no_copy() -> None:
    users = Digits(users=12, examples=200).load(3).users
    marks = [fingerprint.of(user.examples) for user in users]
    common = [fingerprint.shared(a, b).mean() for i, a in enumerate(marks) for b in marks[:i]]
    assert np.mean(common) < 0.01
    assert twin_groups(users) == ()


def test_small_class_bias_means_few_favourite_digits() -> None:
    def most_used(bias: float) -> float:
        users = Digits(users=20, examples=60, class_bias=bias).load(0).users
        labels = [user.examples.y for user in users if user.examples.y is not None]
        return float(np.mean([np.bincount(y).max() / 60 for y in labels]))

    assert most_used(0.1) > most_used(1.0) > most_used(100.0)


def test_more_style_sets_users_further_apart() -> None:
    def spread(style: float) -> float:
        users = Digits(users=20, examples=100, class_bias=1000.0, style=style).load(0).users
        return float(np.var([user.examples.x.mean(axis=0) for user in users], axis=0).mean())

    assert spread(2.0) > spread(1.0) > 1.5 * spread(0.0)
