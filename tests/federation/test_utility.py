"""Utility, its chance level, and centralised training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import PlainMlp, client_update
from sklearn.datasets import load_digits

from fedleak.core import FloatArray, Layout, Params, Task, rng_for
from fedleak.errors import DataError, PlanError, TrainingError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.federation import initial
from fedleak.federation.model import Signature, Tensors
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.recurrent import Rating, WordLm
from fedleak.federation.utility import METRICS, bits, bits_blind, centralised, chance, evaluate, judge, nearest
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples


class Says:
    """Gives the same outputs whatever it is shown."""

    layout: Layout = ()
    group = 1

    def __init__(self, *outputs: float) -> None:
        self.outputs = torch.tensor(outputs)

    def init(self, rng: np.random.Generator) -> Params:
        return {}

    def forward(self, weights: Tensors, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape if x.dtype == torch.int64 else x.shape[:2]
        return self.outputs.expand(*shape, len(self.outputs))


def numbers(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float32)


def test_accuracy_is_the_share_of_right_classes() -> None:
    test = Examples(x=np.zeros((4, 2), np.float32), y=np.array([1, 1, 0, 2]))
    assert evaluate(Says(0.0, 5.0, 1.0), {}, test, Task.CLASSIFY) == 0.5


def test_mean_absolute_error() -> None:
    test = Examples(x=np.zeros((3, 2), np.float32), y=numbers(1, 2, 6))
    assert evaluate(Says(3.0), {}, test, Task.REGRESS) == pytest.approx(2.0)


def test_top5_counts_words_but_not_padding_or_unknown() -> None:
    # Padding and unknown have the highest outputs; the five best words are 2..6.
    model = Says(99, 98, 7, 6, 5, 4, 3, 2, 1)
    test = Examples(x=np.array([[8, 2, 6, 1, 7], [8, 8, 1, 0, 0]]))
    # Targets: 2 (hit), 6 (hit), unknown (not counted), 7 (miss); 8 (miss), unknown, padding.
    assert evaluate(model, {}, test, Task.NEXT_TOKEN) == 0.5


def test_chance_is_the_best_constant_answer() -> None:
    train = Examples(x=np.zeros((5, 1), np.float32), y=np.array([2, 2, 2, 0, 1]))
    test = replace(train, y=np.array([2, 0, 0, 1, 2]))
    assert chance(train, test, Task.CLASSIFY) == pytest.approx(0.4)
    train, test = replace(train, y=numbers(1, 1, 3, 9, 9)), replace(test, y=numbers(3, 3, 4, 5, 0))
    assert chance(train, test, Task.REGRESS) == pytest.approx(6 / 5)
    words = Examples(x=np.array([[9, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 0, 0]]))
    test = Examples(x=np.array([[3, 2, 7, 1, 6, 9, 0]]))
    assert chance(words, test, Task.NEXT_TOKEN) == pytest.approx(2 / 4)


@given(st.lists(st.integers(0, 12), min_size=4, max_size=40))
def test_top5_of_the_commonest_words_is_its_chance_level(tokens: list[int]) -> None:
    train = Examples(x=np.array([[1, *tokens, *range(2, 7)]]))
    counts = np.bincount(train.x[0, 1:], minlength=13).astype(float)
    ties_to_the_smaller = counts - np.arange(13) / 100
    model = Says(*ties_to_the_smaller.tolist())
    assert evaluate(model, {}, train, Task.NEXT_TOKEN) == chance(train, train, Task.NEXT_TOKEN)


def test_a_test_set_with_nothing_to_predict_is_explained() -> None:
    silent = Examples(x=np.array([[4, 0, 0], [3, 1, 0]]))
    with pytest.raises(TrainingError, match="nothing to predict"):
        evaluate(Says(1, 1, 1, 1, 1), {}, silent, Task.NEXT_TOKEN)


def test_every_task_has_a_metric_and_a_direction() -> None:
    assert {task: (m.name, m.higher_is_better) for task, m in METRICS.items()} == {
        Task.CLASSIFY: ("accuracy", True),
        Task.MULTI_LABEL: ("ap", True),
        Task.NEXT_TOKEN: ("top5", True),
        Task.REGRESS: ("mae", False),
    }


def test_evaluation_does_not_depend_on_how_examples_fall_into_batches() -> None:
    model = Mlp().build(Signature(Task.CLASSIFY, (3,), 4))
    rng = np.random.default_rng(0)
    test = Examples(x=rng.random((700, 3), dtype=np.float32), y=rng.integers(0, 4, 700))
    weights = initial(model, 0)
    whole = evaluate(model, weights, test, Task.CLASSIFY)
    parts = [evaluate(model, weights, test.take(slice(i, i + 100)), Task.CLASSIFY) for i in range(0, 700, 100)]
    assert whole == pytest.approx(np.mean(parts))


def test_centralised_training_makes_the_federations_passes_over_the_pooled_data() -> None:
    model = Mlp(hidden=(8,)).build(Signature(Task.CLASSIFY, (4,), 3))
    rng = np.random.default_rng(0)
    data = Examples(x=rng.random((30, 4), dtype=np.float32), y=rng.integers(0, 3, 30))
    settings = FederationPlan(rounds=15, fraction=0.1, epochs=2, batch=8, lr=0.1)  # three passes
    start = initial(model, 7)
    expected = client_update(
        PlainMlp(4, 8, 3),
        model.layout,
        start,
        data,
        Task.CLASSIFY,
        replace(settings, epochs=3),
        rng_for(7, "centralised", "batches"),
    )
    for name, values in centralised(model, data, settings, 7).items():
        np.testing.assert_allclose(values - start[name], expected[name], atol=1e-5)


def test_centralised_training_learns_the_digits() -> None:
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    train, test = (Examples(x=x[rows], y=y[rows]) for rows in (slice(0, 1400), slice(1400, None)))
    model = Mlp().build(Signature(Task.CLASSIFY, (64,), 10))
    weights = centralised(model, train, FederationPlan(rounds=50, fraction=0.2, batch=10, lr=0.1), 0)
    assert evaluate(model, weights, test, Task.CLASSIFY) > 0.85


def test_centralised_training_that_diverges_says_what_to_try() -> None:
    model = Rating(embedding=4, hidden=4, vocabulary=5).build(Signature(Task.REGRESS, (3,), 1))
    data = Examples(x=np.full((8, 3), 2), y=np.full(8, 1e30, np.float32))
    with pytest.raises(TrainingError, match="lower lr"):
        centralised(model, data, FederationPlan(rounds=100, lr=1e6), 0)


def test_models_refuse_tasks_and_shapes_they_are_not_made_for() -> None:
    with pytest.raises(PlanError, match=r"'word-lm' does not fit the task 'classify'.*next-token"):
        WordLm().build(Signature(Task.CLASSIFY, (4,), 2))
    with pytest.raises(PlanError, match="at least 4x4"):
        Cnn().build(Signature(Task.CLASSIFY, (64,), 10))


def test_a_token_outside_the_vocabulary_is_refused_rather_than_read_from_a_neighbour() -> None:
    model = WordLm(embedding=4, hidden=4).build(Signature(Task.NEXT_TOKEN, (3,), 5))
    with pytest.raises(DataError, match="token 5 is outside"):
        evaluate(model, initial(model, 0), Examples(x=np.array([[2, 5, 3]])), Task.NEXT_TOKEN)


def test_several_labels_are_measured_by_the_mean_precision_of_the_classes_that_are_shown() -> None:
    # Class 0 is ranked right first, wrong second, right third: (1 + 2/3) / 2; class 1 is shown by nobody.
    y = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=np.float32)
    scores = np.array([[3, 9, 1], [2, 9, 0], [1, 9, 0]], dtype=np.float32)
    assert judge(scores, y, Task.MULTI_LABEL) == pytest.approx(((1 + 2 / 3) / 2 + 1) / 2)
    assert judge(np.full((3, 3), np.nan), y, Task.MULTI_LABEL) == pytest.approx((2 / 3 + 1 / 3) / 2)
    with pytest.raises(TrainingError, match="no test example shows any of the classes"):
        judge(scores, np.zeros((3, 3)), Task.MULTI_LABEL)


def test_chance_with_several_labels_is_how_often_they_occur_and_what_a_constant_model_scores() -> None:
    y = np.array([[1, 0], [1, 0], [0, 1], [1, 0]], dtype=np.float32)
    rows = Examples(x=np.zeros((4, 1), dtype=np.float32), y=y)
    assert chance(rows, rows, Task.MULTI_LABEL) == pytest.approx((3 / 4 + 1 / 4) / 2)
    assert evaluate(Says(1.0, -2.0), {}, rows, Task.MULTI_LABEL) == pytest.approx(1 / 2)


def test_nearest_neighbours_vote_average_and_rank() -> None:
    x = np.array([[0.0], [0.1], [0.2], [9.0], [9.1], [9.2]], dtype=np.float32)
    test = np.array([[0.15], [8.9], [0.0]], dtype=np.float32)

    def score(task: Task, known: Sequence[object], asked: Sequence[object]) -> float | None:
        kind = np.int64 if task is Task.CLASSIFY else np.float32
        train = Examples(x=x, y=np.array(known, dtype=kind))
        return nearest(train, Examples(x=test, y=np.array(asked, dtype=kind)), task, k=3)

    assert score(Task.CLASSIFY, [0, 0, 1, 2, 2, 0], [0, 2, 1]) == pytest.approx(2 / 3)
    assert score(Task.REGRESS, [1, 1, 4, 5, 5, 5], [2, 5, 3]) == pytest.approx(1 / 3)
    shown = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [0, 1]]
    # Class 1: shares 1/3, 1, 1/3; the one right answer shares its place with a wrong one: precision 1/3.
    assert score(Task.MULTI_LABEL, shown, [[1, 1], [0, 0], [1, 0]]) == pytest.approx((1 + 1 / 3) / 2)


def test_nearest_neighbours_make_do_with_few_examples_and_do_not_read_text() -> None:
    one = Examples(x=np.zeros((1, 2), dtype=np.float32), y=np.array([1]))
    assert nearest(one, one, Task.CLASSIFY) == 1.0
    words = Examples(x=np.array([[2, 3]]), y=np.array([4.0], dtype=np.float32))
    assert nearest(words, words, Task.REGRESS) is None


def test_bits_per_character_are_those_of_the_models_own_loss() -> None:
    rng = np.random.default_rng(0)
    test = Examples(x=np.where(np.arange(9) < 7, rng.integers(1, 6, (5, 9)), 0))
    model = CharLm(embedding=3, hidden=4).build(Signature(Task.NEXT_TOKEN, (9,), 6))
    weights = model.init(rng)
    outputs = model.forward(tensors(model, weights), torch.from_numpy(test.x[None, :, :-1]))[0]
    wanted = torch.from_numpy(test.x[:, 1:]).flatten()
    nats = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), wanted, ignore_index=0)
    assert bits(model, weights, test) == pytest.approx(float(nats) / np.log(2), rel=1e-5)


def test_blind_bits_are_the_entropy_of_the_characters() -> None:
    many = Examples(x=np.tile(np.array([[1, 2, 3, 4]]), (20_000, 1)))
    assert bits_blind(many, Examples(x=np.array([[1, 2, 3, 4, 0]]))) == pytest.approx(2.0, abs=1e-3)
