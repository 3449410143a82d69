"""Facts about users and public examples, as the prior keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedleak.core import Task, UserId
from fedleak.errors import TraceError
from fedleak.population.population import Examples
from fedleak.trace.prior import Background, Prior
from fedleak.trace.truth import Truth

ANN, BOB = UserId("ann"), UserId("bob")


def prior() -> Prior:
    public = Examples(x=np.arange(6, dtype=np.float32).reshape(3, 2), y=np.array([1, 0, 1]), owner=np.array([0, 1, 1]))
    return Prior(
        candidates=(ANN, BOB),
        examples=tuple(Examples(x=np.ones((n, 2), np.float32), y=np.zeros(n, np.int64)) for n in (2, 1)),
        task=Task.CLASSIFY,
        outputs=2,
        attributes=({"sex": "f"}, {}),
        background=Background(
            examples=public,
            shows={"a/b": np.array([1, 0, -1], np.int8), "c": np.array([0, 0, 1], np.int8)},
        ),
    )


def test_facts_and_background_come_back_as_they_were(tmp_path: Path) -> None:
    prior().save(tmp_path)
    found = Prior.load(tmp_path)
    assert found.attributes == ({"sex": "f"}, {})
    assert found.background is not None
    assert found.background.examples.x.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert found.background.examples.y is not None
    assert found.background.examples.y.tolist() == [1, 0, 1]
    assert found.background.examples.owner is not None
    assert found.background.examples.owner.tolist() == [0, 1, 1]
    assert {name: seen.tolist() for name, seen in found.background.shows.items()} == {"a/b": [1, 0, -1], "c": [0, 0, 1]}


def test_a_prior_of_fewer_users_has_their_facts_and_no_background() -> None:
    some = prior().take(np.array([1]))
    assert (some.candidates, some.attributes, some.background) == ((BOB,), ({},), None)
    assert replace(prior(), attributes=()).take(np.array([0])).attributes == ()


def test_a_background_that_was_changed_is_refused(tmp_path: Path) -> None:
    prior().save(tmp_path)
    path = tmp_path / "background-shows.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x05")
    with pytest.raises(TraceError, match=r"background-shows\.npy is damaged"):
        Prior.load(tmp_path)


def test_facts_about_more_users_than_there_are_are_refused(tmp_path: Path) -> None:
    replace(prior(), attributes=({}, {}, {})).save(tmp_path)
    with pytest.raises(TraceError, match="has attributes of 3 for 2 users"):
        Prior.load(tmp_path)


def test_a_background_whose_columns_do_not_fit_together_is_refused(tmp_path: Path) -> None:
    whole = prior()
    assert whole.background is not None
    short = Examples(x=whole.background.examples.x, y=np.array([1]))
    replace(whole, background=replace(whole.background, examples=short)).save(tmp_path)
    with pytest.raises(TraceError, match="columns of the background differ in length"):
        Prior.load(tmp_path)


def test_the_truth_keeps_traits_and_refuses_those_of_strangers(tmp_path: Path) -> None:
    truth = Truth(users=(ANN,), client_user={"d": ANN}, attributes={}, traits={ANN: {"bold": 0.25}})
    truth.save(tmp_path)
    assert Truth.load(tmp_path) == truth
    replace(truth, traits={BOB: {"bold": 1.0}}).save(tmp_path)
    with pytest.raises(TraceError, match="names 'bob', who is not among its users"):
        Truth.load(tmp_path)
