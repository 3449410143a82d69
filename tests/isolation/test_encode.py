"""What is handed to a confined process arrives as it was, and nothing in the file can be executed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedleak.core import Task
from fedleak.defences.noise import Noise
from fedleak.games.match import Pairs
from fedleak.population.population import Examples, Records
from fedleak.sandbox.encode import CannotEncode, load, save
from fedleak.views.adversaries import ACTIVE_SERVER


def again(folder: Path, value: Any) -> Any:
    save(folder, {"value": value})
    return load(folder)["value"]


@pytest.mark.parametrize(
    "value",
    [None, True, 1 << 130, -3, 0.1, math.inf, "é\n", (1, "a"), [1, [2]], {"a": (1,), 3: None}, frozenset({1, 2}), ()],
)
def test_plain_data_arrives_as_it_was(tmp_path: Path, value: Any) -> None:
    found = again(tmp_path, value)
    assert found == value
    assert type(found) is type(value)


def test_arrays_keep_their_type_and_shape(tmp_path: Path) -> None:
    arrays: list[Any] = [
        np.arange(3, dtype=np.int8),
        np.zeros((0, 4), dtype=np.float32),
        np.arange(6.0).reshape(2, 3)[:, ::2],
        np.array(5, dtype=np.int64),
    ]
    for sent, found in zip(arrays, again(tmp_path, arrays), strict=True):
        assert found.dtype == sent.dtype
        np.testing.assert_array_equal(found, sent)


def test_objects_are_built_again(tmp_path: Path) -> None:
    records = Records(form="{digit}", characters=("", "a"))
    questions = Pairs(updates=np.arange(4).reshape(2, 2), options=("same",))
    examples = Examples(x=np.ones((2, 3)), y=np.array([0, 1]))
    sent = {"a": ACTIVE_SERVER, "d": Noise(sigma=0.5), "r": records, "t": Task.CLASSIFY}
    assert again(tmp_path, sent) == sent
    found = again(tmp_path, (questions, examples))
    np.testing.assert_array_equal(found[0].updates, questions.updates)
    assert found[1].time is None
    np.testing.assert_array_equal(found[1].y, examples.y)


@pytest.mark.parametrize("value", [lambda: 0, object(), np.array([object()]), open])
def test_what_another_process_cannot_build_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CannotEncode):
        save(tmp_path, {"value": value})


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "builtins:eval", "fedleak.core:rng_for"])
def test_a_file_cannot_call_anything_but_a_class_of_data(tmp_path: Path, name: str) -> None:
    save(tmp_path, {})
    tree = {"dict": [["value", {"object": name, "fields": {}}]]}
    (tmp_path / "given.json").write_bytes(msgspec.json.encode(tree))
    with pytest.raises(ImportError):
        load(tmp_path)
