"""Examples with several labels each keep them through the preparation."""

from __future__ import annotations

import numpy as np
import pytest
from users import Given, crowd, numbers, user

from fedleak.core import Task
from fedleak.errors import DataError
from fedleak.plan.plan import PopulationPlan
from fedleak.population.population import User
from fedleak.population.prepare import prepare


def several(name: str, start: int) -> User:
    y = (np.arange(20).reshape(10, 2) % 3 == 0).astype(np.float32)
    return user(name, range(start, start + 10), y=y)


def test_several_labels_an_example_keep_their_examples() -> None:
    users = (several("a", 100), several("b", 200))
    for iid in (False, True):
        prepared = prepare(Given(users=users, task=Task.MULTI_LABEL, test=None), PopulationPlan(), 0, iid=iid)
        owned = {n: row for u in users for n, row in zip(numbers(u.examples), np.asarray(u.examples.y), strict=True)}
        for side in [side for s in prepared.shares for side in (s.prior, s.private)] + [prepared.test]:
            assert side.y is not None
            assert side.y.shape == (len(side), 2)
            assert all((owned[n] == row).all() for n, row in zip(numbers(side), side.y, strict=True))


def test_labels_of_the_wrong_shape_are_refused_with_the_users_name() -> None:
    wrong = user("wide", range(10), y=np.zeros((10, 3), dtype=np.float32))
    with pytest.raises(
        DataError, match=r"user 'wide': labels of shape \(10, 3\), but the task is multi-label.* 2 values"
    ):
        prepare(Given(users=(several("a", 100), wrong), task=Task.MULTI_LABEL), PopulationPlan(), 0)
    halves = user("half", range(10), y=np.full((10, 2), 0.5, dtype=np.float32))
    with pytest.raises(DataError, match=r"user 'half'.*1 where it shows a class"):
        prepare(Given(users=(several("a", 100), halves), task=Task.MULTI_LABEL), PopulationPlan(), 0)
    with pytest.raises(DataError, match=r"user 'a': labels of shape \(10, 2\) where each example needs exactly one"):
        prepare(Given(users=(several("a", 100), *crowd(1))), PopulationPlan(), 0)
