"""Clients cut from a heap of digits: few classes each, nothing shared, rotated where the plan says so."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from test_mnist_writers import small

from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients, turned
from fedleak.population.prepare import prepare

__all__ = ["small"]

DIGITS = MnistClients(source="digits", clients=8, examples=31, classes=3)


def contents(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> set[bytes]:
    return {image.tobytes() for image in x}


def test_every_client_has_its_number_of_digits_of_its_number_of_classes() -> None:
    population = DIGITS.load(0)
    assert len(population.users) == 8
    for user in population.users:
        assert user.examples.y is not None
        assert sorted(np.bincount(user.examples.y, minlength=10)[-10:])[-3:] == [10, 10, 11]
        assert len(user.examples) == 31


def test_no_digit_is_in_two_places() -> None:
    upright = MnistClients(source="digits", clients=8, examples=30, rotated=0).load(3)
    assert upright.background is not None and upright.test is not None
    held = [contents(user.examples.x) for user in upright.users]
    held += [contents(upright.background.x), contents(upright.test.x)]
    assert all(one.isdisjoint(other) for one, other in combinations(held, 2))


def test_the_stated_share_of_clients_is_rotated_and_says_by_what() -> None:
    population = MnistClients(source="digits", clients=8, examples=20, rotated=0.5, angles=(30, -30)).load(0)
    said = sorted(user.attributes["rotation"] for user in population.users)
    assert said == ["-30", "-30", "0", "0", "0", "0", "30", "30"]


def test_turning_is_to_the_left_and_about_the_middle() -> None:
    image = np.zeros((1, 9, 9), dtype=np.float32)
    image[0, 4, 6:] = 1  # a stroke to the right of the middle
    left = turned(image, 90)
    assert np.allclose(left[0, :3, 4], 1, atol=1e-5) and left[0, 4, 4] < 1e-5
    assert np.array_equal(turned(image, 0), image)


def test_a_rotated_client_holds_the_same_digits_turned() -> None:
    upright = MnistClients(source="digits", clients=4, examples=20, rotated=0).load(0)
    rotated = MnistClients(source="digits", clients=4, examples=20, rotated=1, angles=(30,)).load(0)
    for one, other in zip(upright.users, rotated.users, strict=True):
        assert np.array_equal(turned(one.examples.x[:, 0], 30), other.examples.x[:, 0])


def test_the_auxiliary_set_shows_all_classes_and_is_handed_to_an_adversary_without_a_prior() -> None:
    prepared = prepare(DIGITS, PopulationPlan(prior="none"), 0)
    assert prepared.public is not None and prepared.public.y is not None
    assert set(prepared.public.y.tolist()) == set(range(10))
    assert (
        prepare(MnistClients(source="digits", examples=20, auxiliary=0), PopulationPlan(prior="none"), 0).public is None
    )
    assert prepare(DIGITS, PopulationPlan(prior="random"), 0).public is None


def test_the_same_seed_makes_the_same_clients_and_another_seed_others() -> None:
    first, again, other = (DIGITS.load(seed) for seed in (0, 0, 1))
    assert all(np.array_equal(a.examples.x, b.examples.x) for a, b in zip(first.users, again.users, strict=True))
    assert {user.id for user in first.users}.isdisjoint(user.id for user in other.users)


def test_more_than_there_are_digits_is_refused() -> None:
    with pytest.raises(DataError, match="Lower clients or examples"):
        MnistClients(source="digits", clients=100, examples=100).load(0)


def test_mnist_files_are_read_and_scaled(small: Path) -> None:
    population = MnistClients(clients=2, examples=9).load(0)
    assert population.users[0].examples.x.shape == (9, 1, 28, 28)
    assert population.users[0].examples.x.max() <= 1
    (small / "train-labels-idx1-ubyte.gz").write_bytes((small / "t10k-labels-idx1-ubyte.gz").read_bytes())
    with pytest.raises(DataError, match="not MNIST's"):
        MnistClients(clients=2, examples=9).load(0)


@pytest.mark.usefixtures("find_real_data")
def test_a_hundred_clients_can_be_cut_from_mnist() -> None:
    population = MnistClients(clients=100).load(0)
    assert sum(len(user.examples) for user in population.users) == 10_000
    assert population.background is not None and len(population.background) == 2000
