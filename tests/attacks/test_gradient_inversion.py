"""Gradient inversion: the imitated update is the real one, labels are counted, and a small batch is recovered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedleak.attacks.context import AttackContext
from fedleak.attacks.recover.gradient_inversion import GradientInversion
from fedleak.attacks.recover.imitation import Imitation, imitated
from fedleak.attacks.recover.labels import label_counts, whole
from fedleak.attacks.recover.orders import exchanges, reorder
from fedleak.core import Task, rng_for
from fedleak.errors import AttackError
from fedleak.federation.engines.batches import Pool
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


def shuffled(count: int, size: int, epochs: int) -> np.ndarray:
    """The orders in which the engine's clients see their examples, pass by pass."""
    drawn = [rngs("batches", client) for client in range(count)]
    return np.stack([[rng.permutation(size) for _ in range(epochs)] for rng in drawn])


def sent(data: list[Examples], plan: FederationPlan) -> dict[str, np.ndarray]:
    pool = Pool.of(data, [str(place) for place in range(len(data))])
    rows = Embedded(MODEL, Task.CLASSIFY, plan, pool).updates(START, range(len(data)), rngs)
    return {name: values.numpy() for name, values in rows.items()}


@pytest.mark.parametrize(
    ("size", "batch", "epochs"), [(1, 1, 1), (8, 8, 1), (8, 2, 1), (7, 3, 1), (4, 4, 2), (8, 4, 3)]
)
def test_the_imitated_update_of_the_true_examples_is_the_real_one(size: int, batch: int, epochs: int) -> None:
    plan = FederationPlan(rounds=1, batch=batch, epochs=epochs, lr=0.1)
    data = clients(3, size)
    real = sent(data, plan)
    x, y = (torch.from_numpy(np.stack([getattr(one, part) for one in data])) for part in "xy")
    before = {key: w.expand(3, *w.shape[1:]).clone().requires_grad_() for key, w in tensors(MODEL, START).items()}
    orders = torch.from_numpy(shuffled(3, size, epochs))
    made = imitated(MODEL, before, x, y, orders, plan, graph=False)
    for layer in MODEL.layout:
        for tensor, shape in layer.tensors:
            expected = real[layer.name][:, layer.span(tensor)].reshape(3, *shape)
            assert np.allclose(made[f"{layer.name}.{tensor}"].detach(), expected, atol=1e-6)


def test_the_mini_batches_are_found_from_images_that_are_roughly_right() -> None:
    plan, data = FederationPlan(rounds=1, batch=2, lr=0.1), clients(1, 6)
    true = shuffled(1, 6, 1)
    wrong = np.arange(6)[None, None].copy()
    y = np.asarray(data[0].y)[None]
    problem = Imitation(MODEL, START, sent(data, plan), y, wrong, plan, SHAPE, "euclidean")
    noise = rng_for(0, "noise").normal(scale=0.02, size=(1, *data[0].x.shape))
    images = torch.from_numpy(np.clip(data[0].x[None] + noise, 0, 1))

    def batches(orders: torch.Tensor) -> list[set[int]]:
        return [set(row) for row in orders[0, 0].view(3, 2).tolist()]

    before = problem.errors(images)
    assert reorder(problem, images, rng_for(0, "reorder"))
    assert float(problem.errors(images)) < float(before)
    assert batches(problem.orders) == batches(torch.from_numpy(true))


def test_exchanges_join_different_batches_only() -> None:
    assert all(a // 3 != b // 3 for a, b in exchanges(8, 3).tolist())
    assert len(exchanges(4, 4)) == 0


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
    assert whole(np.array([0.5, 0.26, 0.24]), 4).tolist() == [2, 1, 1]
    assert whole(np.zeros(4), 4).sum() == 4


def test_label_counts_allow_for_what_a_trained_model_expects_of_each_class() -> None:
    """A model that knows a class moves little on it; the mean of all classes would mislead."""
    images = np.zeros((5, *SHAPE), dtype=np.float32)
    images.reshape(5, -1)[np.arange(5), np.arange(5)] = 1
    public = Examples(x=np.repeat(images, 10, axis=0), y=np.repeat(np.arange(5), 10))
    pool = Pool.of([public], ["teacher"])
    plan, start = FederationPlan(rounds=1, batch=10, lr=1.0, epochs=20), START
    rows = Embedded(MODEL, Task.CLASSIFY, plan, pool).updates(start, [0], rngs)
    start = {name: start[name] + rows[name][0].numpy() for name in start}
    data = Examples(x=images[[0, 0, 0, 0, 0, 0, 3, 4]], y=np.array([0, 0, 0, 0, 0, 0, 3, 4]))
    plan = FederationPlan(rounds=1, batch=8, lr=0.1)
    moved = Embedded(MODEL, Task.CLASSIFY, plan, Pool.of([data], ["a"])).updates(start, [0], rngs)
    updates = {name: values.numpy() for name, values in moved.items()}
    asked = replace(questions(), public=public)
    found = label_counts(MODEL, start, updates, np.array([8]), plan, asked)
    assert found.tolist() == [[6, 0, 0, 1, 1]]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("images", ["public", "smooth"])
def test_a_single_example_is_found_to_the_rounding_of_its_update(distance: str, images: str) -> None:
    plan, data = FederationPlan(rounds=1, batch=1, lr=0.1), clients(2, 1)
    attack = GradientInversion(iterations=12, distance=distance, images=images)  # type: ignore[arg-type]
    counts = np.stack([np.bincount(np.asarray(one.y), minlength=5) for one in data])
    context = AttackContext(rng_for(0, "attack"))
    found = attack.search(MODEL, START, sent(data, plan), counts, plan, questions(), context)
    errors = [float(((image[0] - one.x[0]) ** 2).mean()) for image, one in zip(found, data, strict=True)]
    assert max(errors) < 10**-5  # 50 dB


def test_a_scaled_update_is_inverted_by_its_direction() -> None:
    plan, data = FederationPlan(rounds=1, batch=1, lr=0.1), clients(1, 1)
    clipped = {name: np.float32(0.2) * values for name, values in sent(data, plan).items()}
    counts = np.bincount(np.asarray(data[0].y), minlength=5)[None]
    errors = {}
    for distance in ("cosine", "euclidean"):
        attack = GradientInversion(iterations=12, distance=distance)
        context = AttackContext(rng_for(0, "attack"))
        found = attack.search(MODEL, START, clipped, counts, plan, questions(), context)
        errors[distance] = float(((found[0] - data[0].x) ** 2).mean())
    assert errors["cosine"] < 10**-5 < errors["euclidean"]
