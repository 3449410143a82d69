"""Gradient inversion: the imitated update is the real one, labels are counted, and a small batch is recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedleak.attacks.recover.gradient_inversion import GradientInversion, _whole, imitated, label_counts
from fedleak.core import Task, rng_for
from fedleak.errors import AttackError
from fedleak.federation.engines.batches import Pool, schedule
from fedleak.federation.engines.embedded import Embedded, tensors
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.games.recover import ExampleQuestions
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

SHAPE = (1, 8, 8)
MODEL = StridedCnn(channels=(4,), strides=(2,), activation="elu").build(Signature(Task.CLASSIFY, SHAPE, 5))
START = MODEL.init(rng_for(0, "weights"))


def clients(count: int, size: int) -> list[Examples]:
    rng = rng_for(0, "clients")
    return [
        Examples(x=rng.random((size, *SHAPE), dtype=np.float32), y=rng.integers(5, size=size)) for _ in range(count)
    ]


def rngs(stage: str, client: int) -> np.random.Generator:
    return rng_for(3, stage, client)


@pytest.mark.parametrize(("size", "batch", "epochs"), [(1, 1, 1), (8, 8, 1), (8, 2, 1), (7, 3, 1), (4, 4, 2)])
def test_the_imitated_update_of_the_true_examples_is_the_real_one(size: int, batch: int, epochs: int) -> None:
    plan = FederationPlan(rounds=1, batch=batch, epochs=epochs, lr=0.1)
    data = clients(3, size)
    pool = Pool.of(data, ["a", "b", "c"])
    real = Embedded(MODEL, Task.CLASSIFY, plan, pool).updates(START, [0, 1, 2], rngs)
    # In the order in which the clients really saw them; where a batch holds all, every order is the same.
    drawn = schedule(pool, [0, 1, 2], batch, 1, [rngs("batches", client) for client in range(3)])
    order = drawn.rows.transpose(0, 1).flatten(1)[:, :size] if size % batch == 0 else None
    if order is None:
        order = torch.stack(
            [torch.cat([drawn.rows[s, c][drawn.share[s, c] > 0] for s in range(len(drawn.rows))]) for c in range(3)]
        )
    assert pool.y is not None
    before = {key: w.expand(3, *w.shape[1:]).clone().requires_grad_() for key, w in tensors(MODEL, START).items()}
    made = imitated(MODEL, before, pool.x[order], pool.y[order], plan, graph=False)
    for layer in MODEL.layout:
        for tensor, shape in layer.tensors:
            expected = real[layer.name][:, layer.span(tensor)].reshape(3, *shape)
            assert torch.allclose(made[f"{layer.name}.{tensor}"], expected, atol=1e-6)


def questions(labels: tuple[tuple[int, ...], ...] = ()) -> ExampleQuestions:
    public = Examples(x=rng_for(0, "public").random((50, *SHAPE), dtype=np.float32), y=np.arange(50) % 5)
    return ExampleQuestions(
        updates=np.zeros(0, dtype=np.int64),
        options=(),
        round=1,
        samples=8,
        shape=SHAPE,
        classes=5,
        public=public,
        labels=labels,
    )


def test_label_counts_are_read_from_the_bias_of_the_last_layer() -> None:
    plan, data = FederationPlan(rounds=1, batch=10, lr=0.1), clients(3, 10)
    rows = Embedded(MODEL, Task.CLASSIFY, plan, Pool.of(data, ["a", "b", "c"])).updates(START, [0, 1, 2], rngs)
    updates = {name: values.numpy() for name, values in rows.items()}
    found = label_counts(MODEL, START, updates, np.full(3, 10), plan, questions())
    assert np.array_equal(found, [np.bincount(np.asarray(one.y), minlength=5) for one in data])
    told = ((10, 0, 0, 0, 0),) * 3
    assert label_counts(MODEL, START, updates, np.full(3, 10), plan, questions(told)).tolist() == [
        list(row) for row in told
    ]


def test_a_model_without_a_bias_needs_known_labels() -> None:
    class Bare:
        layout = (replace(MODEL.layout[-1], tensors=MODEL.layout[-1].tensors[:1]),)

    with pytest.raises(AttackError, match='labels = "known"'):
        label_counts(Bare(), START, {}, np.ones(1), FederationPlan(rounds=1), questions())  # type: ignore[arg-type]


def test_whole_numbers_keep_the_total() -> None:
    assert _whole(np.array([0.5, 0.26, 0.24]), 4).tolist() == [2, 1, 1]
    assert _whole(np.zeros(4), 4).sum() == 4


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_a_single_example_is_found(distance: str) -> None:
    from fedleak.attacks.context import AttackContext

    plan, data = FederationPlan(rounds=1, batch=1, lr=0.1), clients(2, 1)
    rows = Embedded(MODEL, Task.CLASSIFY, plan, Pool.of(data, ["a", "b"])).updates(START, [0, 1], rngs)
    updates = {name: values.numpy() for name, values in rows.items()}
    attack = GradientInversion(iterations=300, distance=distance)  # type: ignore[arg-type]
    counts = np.stack([np.bincount(np.asarray(one.y), minlength=5) for one in data])
    found = attack._search(MODEL, START, updates, counts, plan, questions(), AttackContext(rng_for(0, "attack")))
    errors = [float(((image[0] - one.x[0]) ** 2).mean()) for image, one in zip(found, data, strict=True)]
    assert max(errors) < 10**-2.5  # 25 dB
