"""The shortcuts of the attacks' learners give what the long way gives."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from fedleak.attacks import network
from fedleak.attacks.deanonymize.svm import turned
from fedleak.attacks.features import unit
from fedleak.core import FloatArray, IntArray


def users(columns: int) -> tuple[FloatArray, IntArray, FloatArray]:
    """Labelled rows of six users, and others of the same users."""
    rng = np.random.default_rng(0)
    means, who = rng.normal(size=(6, columns)), np.repeat(np.arange(6), 8)
    known, asked = (unit((means[who] + 2 * rng.normal(size=(48, columns))).astype(np.float32)) for _ in range(2))
    return known, who, asked


@pytest.mark.parametrize("heads", [1, 2])
def test_a_layer_by_rows_takes_the_steps_of_a_layer_by_columns(heads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    known, who, asked = users(400)
    targets = [who, who % 2][:heads]
    settings = network.Network(epochs=15, lr=0.1, batch=7)
    by_row = network.fit(known, targets, settings, np.random.default_rng(1))(asked)
    monkeypatch.setattr(network, "_ByRow", network._ByColumn)
    by_column = network.fit(known, targets, settings, np.random.default_rng(1))(asked)
    for short, long in zip(by_row, by_column, strict=True):
        assert np.abs(short - long).max() < 1e-4
    assert (by_row[0].argmax(axis=1) == who).mean() > 0.5, "it must have learnt something to compare"


def test_a_hyperplane_is_the_same_after_turning() -> None:
    known, who, asked = users(400)
    rows, turn = turned(known)
    assert rows.shape == (48, 48)
    short = LinearSVC(random_state=0, max_iter=20000, tol=1e-6).fit(rows, who).decision_function(turn(asked))
    long = LinearSVC(random_state=0, max_iter=20000, tol=1e-6).fit(known, who).decision_function(asked)
    assert np.abs(short - long).max() < 1e-3


def test_rows_that_repeat_are_turned_without_dividing_by_nothing() -> None:
    known, _, asked = users(400)
    rows, turn = turned(np.concatenate([known, known]))
    assert rows.shape[1] == 48 and np.isfinite(turn(asked)).all()
    assert np.allclose(rows @ rows.T, np.concatenate([known, known]) @ np.concatenate([known, known]).T, atol=1e-4)


def test_few_columns_are_left_alone() -> None:
    known, _, _ = users(20)
    assert turned(known)[0] is known
