"""A server that watches a validation loss, and gradients that are clipped entry by entry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_runs import PLAN, run, same, small_model, some, some_clients

from fedleak.core import Params, Task
from fedleak.errors import DataError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.engines.optim import clip_values
from fedleak.federation.federation import initial
from fedleak.federation.model import Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.monitor import Monitor, halved, validation_loss
from fedleak.population.population import Examples

HELD_OUT = some(20, np.random.default_rng(5))
WATCHED = replace(PLAN, rounds=60, lr=2.0, plateau=2, patience=5)


def test_every_entry_is_bounded_and_small_ones_stay() -> None:
    found = clip_values([torch.tensor([[3.0, -0.5]]), torch.tensor([[-7.0]])], 1.0)
    assert [g.tolist() for g in found] == [[[1.0, -0.5]], [[-1.0]]]


def test_a_step_moves_no_weight_by_more_than_the_bound() -> None:
    model, few = small_model(), some_clients()
    once = replace(PLAN, rounds=1, batch=100, clip=0.001)
    by_norm, by_value = (run(model, few, plan=replace(once, clip_by=way))[0].updates for way in ("norm", "value"))
    norms, values = (np.concatenate([one[name] for name in one], axis=1) for one in (by_norm, by_value))
    assert np.linalg.norm(norms, axis=1) == pytest.approx(0.1 * 0.001, rel=0.01)
    assert np.abs(values).max() == pytest.approx(0.1 * 0.001, rel=0.01)
    assert np.linalg.norm(values, axis=1).min() > 2 * 0.1 * 0.001


def test_the_loss_is_the_one_that_clients_minimise() -> None:
    model = small_model()
    weights = initial(model, 0)
    outputs = model.forward(tensors(model, weights), torch.from_numpy(HELD_OUT.x).unsqueeze(0)).squeeze(0)
    assert HELD_OUT.y is not None
    expected = F.cross_entropy(outputs, torch.from_numpy(HELD_OUT.y))
    assert validation_loss(model, weights, HELD_OUT) == pytest.approx(float(expected), rel=1e-5)


def test_without_progress_the_rate_is_divided_by_ten_and_then_training_stops() -> None:
    model = small_model()
    monitor, weights = Monitor(model, HELD_OUT, WATCHED), initial(model, 0)
    rates, stops = [], []
    for _ in range(6):
        monitor.see(weights)
        rates.append(monitor.rate)
        stops.append(monitor.stopped)
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    assert stops == [False] * 5 + [True]


def test_a_run_ends_early_and_a_resumed_one_ends_the_same_way() -> None:
    model, few = small_model(), some_clients()

    def watching(*models: Params) -> Monitor:
        monitor = Monitor(model, HELD_OUT, WATCHED)
        for weights in models:
            monitor.see(weights)
        return monitor

    start = initial(model, 1)
    whole = run(model, few, plan=WATCHED, monitor=watching(start))
    plain = run(model, few, plan=WATCHED)
    assert 5 <= len(whole) < len(plain) == 60
    assert same(whole[0], plain[0]) and not same(whole[-1], plain[len(whole) - 1])  # the rate was lowered
    done = whole[:3]
    rest = run(
        model, few, plan=WATCHED, start=3, weights=done[-1].weights, monitor=watching(start, *(r.weights for r in done))
    )
    assert len(rest) == len(whole) - 3 and all(same(a, b) for a, b in zip(whole[3:], rest, strict=True))


def test_what_the_server_watches_is_not_what_the_model_is_tested_on() -> None:
    watched, tested = halved(HELD_OUT)
    assert len(watched) == len(tested) == 10
    assert not {row.tobytes() for row in watched.x} & {row.tobytes() for row in tested.x}
    with pytest.raises(DataError, match="hold out more"):
        halved(HELD_OUT.take([0]))


def test_embeddings_start_as_in_keras_if_asked_and_nothing_else_changes() -> None:
    signature = Signature(Task.NEXT_TOKEN, (9,), 12)
    normal, uniform = (
        CharLm(embedding=64, hidden=8, layers=3, initial=way).build(signature).init(np.random.default_rng(0))
        for way in ("normal", "uniform")
    )
    assert np.abs(uniform["embedding"]).max() <= 0.05 < np.abs(normal["embedding"]).max()
    assert uniform["embedding"].std() == pytest.approx(0.1 / 12**0.5, rel=0.1)
    assert all(np.array_equal(normal[name], uniform[name]) for name in normal if name != "embedding")


def test_text_is_watched_character_by_character() -> None:
    model = CharLm(embedding=4, hidden=5).build(Signature(Task.NEXT_TOKEN, (6,), 7))
    weights = model.init(np.random.default_rng(0))
    x = np.random.default_rng(1).integers(1, 7, (3, 6))
    logs = model.forward(tensors(model, weights), torch.from_numpy(x[:, :-1]).unsqueeze(0)).squeeze(0).log_softmax(-1)
    expected = -logs.gather(2, torch.from_numpy(x[:, 1:]).unsqueeze(2)).mean()
    assert validation_loss(model, weights, Examples(x=x)) == pytest.approx(float(expected), rel=1e-5)
