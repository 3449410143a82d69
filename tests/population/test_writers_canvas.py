"""Canvases of several digits: labelled by what is on them, each digit used once, each by one writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_mnist_writers import small

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.datasets.mnist_writers import read_idx, read_writers
from fedleak.population.datasets.writers_canvas import WritersCanvas
from fedleak.population.prepare import prepare

__all__ = ["small"]


@pytest.fixture
def marked(small: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Digits without margins that show their own row as a grey value, so that a canvas tells what it is made of."""

    def marked_idx(file: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        values = read_idx(file)
        if values.ndim == 3:
            values = np.zeros_like(values)
            values[:, 4:24, 4:24] = 1 + np.arange(len(values))[:, None, None]
        return values

    monkeypatch.setattr("fedleak.population.datasets.mnist_writers.read_idx", marked_idx)
    return small


def rows_on(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> list[list[int]]:
    """Which digits (by row of the file) are on each canvas."""
    return [sorted({round(float(v)) - 1 for v in np.unique(canvas * 255) if v > 0.5}) for canvas in x]


def test_every_digit_is_on_one_canvas_of_its_writer_and_labels_say_what_is_there(marked: Path) -> None:
    population = WritersCanvas(canvases=12).load(0)
    rows = read_idx(marked / "qmnist-train-labels-idx2-int.gz")
    assert population.task is Task.MULTI_LABEL
    assert [user.id for user in population.users] == ["writer-7", "writer-8"]
    assert population.users[1].attributes == {"group": "student"}
    for user, number in zip(population.users, (7, 8), strict=True):
        assert user.examples.x.shape == (12, 1, 40, 40)
        on = rows_on(user.examples.x)
        assert sorted(map(len, on)) == [2] * 4 + [3] * 4 + [4] * 4
        used = [row for canvas in on for row in canvas]
        assert len(used) == len(set(used))
        assert (rows[used, 2] == number).all()
        assert user.examples.y is not None
        for canvas, label in zip(on, user.examples.y, strict=True):
            assert np.flatnonzero(label).tolist() == sorted(set(rows[canvas, 0].tolist()))


def test_prior_and_private_share_no_digit(marked: Path) -> None:
    for share in prepare(WritersCanvas(canvases=12), PopulationPlan(), 3).shares:
        prior, private = (
            {row for canvas in rows_on(side.x) for row in canvas} for side in (share.prior, share.private)
        )
        assert prior
        assert private
        assert not prior & private


def test_others_make_the_background_and_the_test_set(marked: Path) -> None:
    population = WritersCanvas(canvases=12).load(0)
    assert population.background is not None
    assert population.test is not None
    # Writer 9 has 10 digits: 2 + 3 + 4; the test set's writer has 20: two rounds of that and 2 more.
    assert (len(population.background), len(population.test)) == (3, 7)


def test_the_seed_changes_the_canvases_but_not_the_users(marked: Path) -> None:
    first, second = (WritersCanvas(canvases=12).load(seed) for seed in (0, 1))
    assert [user.id for user in first.users] == [user.id for user in second.users]
    assert rows_on(first.users[0].examples.x) != rows_on(second.users[0].examples.x)


@pytest.mark.slow
def test_a_digit_keeps_all_its_ink(find_real_data: None) -> None:
    population = WritersCanvas(least=1, most=1, canvases=100).load(0)
    assert population.users[0].examples.x.shape == (100, 1, 20, 20)

    train, _ = read_writers("mnist-writers")
    whole = dict(train.by_writer())[int(population.users[0].id.removeprefix("writer-"))]
    ink = np.sort((train.images[whole] / np.float32(255)).sum(axis=(1, 2)))
    found = np.sort(population.users[0].examples.x.sum(axis=(1, 2, 3)))
    assert np.isin(np.round(found, 2), np.round(ink, 2)).all()


def test_fewer_than_the_fewest_is_refused() -> None:
    with pytest.raises(DataError, match="least = 4 is more than most = 2"):
        WritersCanvas(least=4, most=2).load(0)


def test_made_up_users_differ_in_what_is_on_their_canvases_and_use_no_image_twice(marked: Path) -> None:
    population = WritersCanvas(canvases=4, most=2, class_bias=0.5, people=6).load(0)
    rows = read_idx(marked / "qmnist-train-labels-idx2-int.gz")
    assert [user.id for user in population.users] == [f"person-0-{number}" for number in range(6)]
    shares = []
    for user in population.users:
        on = rows_on(user.examples.x)
        used = [row for canvas in on for row in canvas]
        assert len(used) == len(set(used)) == 8
        assert user.examples.y is not None
        for canvas, label in zip(on, user.examples.y, strict=True):
            assert np.flatnonzero(label).tolist() == sorted(set(rows[canvas, 0].tolist()))
        shares.append(np.bincount(rows[used, 0], minlength=10) / len(used))
    assert np.std(shares, axis=0).mean() > 0.1
    assert len({tuple(share) for share in shares}) == 6
    other = WritersCanvas(canvases=4, most=2, class_bias=0.5, people=6).load(1)
    assert not {user.id for user in population.users} & {user.id for user in other.users}


def test_background_shows_no_digit_of_a_made_up_user(marked: Path) -> None:
    population = WritersCanvas(canvases=4, most=2, class_bias=5.0, people=6).load(0)
    assert population.background is not None
    background = {row for canvas in rows_on(population.background.x) for row in canvas}
    assert background
    for user in population.users:
        assert not background & {row for canvas in rows_on(user.examples.x) for row in canvas}


def test_more_of_a_digit_than_there_is_is_refused(marked: Path) -> None:
    with pytest.raises(DataError, match="lower canvases or raise class_bias"):
        WritersCanvas(canvases=150, class_bias=0.1, people=2).load(0)
