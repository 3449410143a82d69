"""The grouped engine computes what a plain loop over clients computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples_of
from hypothesis import strategies as st
from reference import PlainCnn, PlainLm, PlainMlp, PlainMobileNet, PlainRating, client_update
from torch import nn

from fedleak.core import Task
from fedleak.federation.engines.batches import Pool, schedule, steps_of
from fedleak.federation.engines.embedded import Embedded, one_thread
from fedleak.federation.model import Architecture, Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.mobilenet import MobileNet
from fedleak.federation.models.recurrent import Rating, WordLm
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

SIZES = (23, 1, 10, 40, 7, 23, 12)  # ragged last batches, one example, exact multiples, and ties


def images(n: int, rng: np.random.Generator, shape: tuple[int, ...]) -> Examples:
    return Examples(x=rng.random((n, *shape), dtype=np.float32), y=rng.integers(0, 5, n))


def several(rows: Examples) -> Examples:
    """With two classes an example, in rows of 0 and 1."""
    assert rows.y is not None
    return replace(rows, y=(np.eye(5) + np.eye(5)[::-1])[rows.y].clip(max=1).astype(np.float32))


def sentences(n: int, rng: np.random.Generator, length: int = 9) -> Examples:
    x = rng.integers(1, 20, (n, length))
    x[np.arange(length) >= rng.integers(2, length + 1, n)[:, None]] = 0
    return Examples(x=x)


def reviews(n: int, rng: np.random.Generator) -> Examples:
    return Examples(x=sentences(n, rng).x, y=rng.random(n, dtype=np.float32) * 5)


Case = tuple[Architecture, Signature, Callable[[], nn.Module], Callable[[int, np.random.Generator], Examples]]
CASES: dict[str, Case] = {
    "mlp": (
        Mlp(hidden=(16,)),
        Signature(Task.CLASSIFY, (1, 8, 8), 5),
        lambda: PlainMlp(64, 16, 5),
        lambda n, rng: images(n, rng, (1, 8, 8)),
    ),
    "cnn-8x8": (
        Cnn(),
        Signature(Task.CLASSIFY, (1, 8, 8), 5),
        lambda: PlainCnn(1, 8, 5, 3),
        lambda n, rng: images(n, rng, (1, 8, 8)),
    ),
    "cnn-colour-28x28": (
        Cnn(kernel=5),
        Signature(Task.CLASSIFY, (3, 28, 28), 5),
        lambda: PlainCnn(3, 28, 5, 5),
        lambda n, rng: images(n, rng, (3, 28, 28)),
    ),
    "cnn-multi-label": (
        Cnn(),
        Signature(Task.MULTI_LABEL, (1, 8, 8), 5),
        lambda: PlainCnn(1, 8, 5, 3),
        lambda n, rng: several(images(n, rng, (1, 8, 8))),
    ),
    "mobilenet": (
        MobileNet(blocks=3),
        Signature(Task.MULTI_LABEL, (1, 8, 12), 5),
        lambda: PlainMobileNet(1, 5),
        lambda n, rng: several(images(n, rng, (1, 8, 12))),
    ),
    "word-lm": (
        WordLm(embedding=8, hidden=12),
        Signature(Task.NEXT_TOKEN, (9,), 20),
        lambda: PlainLm(20, 8, 12),
        sentences,
    ),
    "rating": (
        Rating(embedding=8, hidden=12, vocabulary=20),
        Signature(Task.REGRESS, (9,), 1),
        lambda: PlainRating(20, 8, 12),
        reviews,
    ),
}
SETTINGS = {
    "sgd": FederationPlan(batch=10, lr=0.1),
    "two-epochs": FederationPlan(batch=10, lr=0.1, epochs=2),
    "adam": FederationPlan(batch=10, lr=0.001, optimizer="adam", epochs=2),
    "clip": FederationPlan(batch=10, lr=1.0, clip=0.1),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As `train` calls the engine; small operations on several threads mostly wait for each other."""
    with one_thread():
        yield


def generator(stage: str, client: int) -> np.random.Generator:
    return np.random.default_rng([client, len(stage)])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_grouped_clients_end_where_a_plain_loop_over_clients_ends(case: Case, settings: FederationPlan) -> None:
    architecture, signature, plain, make = case
    model = architecture.build(signature)
    rng = np.random.default_rng(0)
    data = [make(n, rng) for n in SIZES]
    weights = model.init(rng)
    chosen = [3, 0, 1, 6, 2, 5]
    assert model.group > 2
    model.group = 4  # two groups, so that their rows must be put back in the order asked for
    engine = Embedded(model, signature.task, settings, Pool.of(data, [str(i) for i in range(len(data))]))
    found = engine.updates(weights, chosen, generator)
    for row, client in enumerate(chosen):
        expected = client_update(
            plain(), model.layout, weights, data[client], signature.task, settings, generator("batches", client)
        )
        for layer in model.layout:
            # Adam divides by the gradient's size, which makes rounding visible where a gradient is nearly zero.
            tolerance = 1e-4 if settings.optimizer == "adam" else 1e-5
            np.testing.assert_allclose(found[layer.name][row], expected[layer.name], atol=tolerance, err_msg=layer.name)
            assert np.abs(expected[layer.name]).max() > 10 * tolerance  # the comparison can fail


def test_clients_without_a_word_to_predict_do_not_move_and_do_not_disturb_others() -> None:
    architecture, signature, _, make = CASES["word-lm"]
    model = architecture.build(signature)
    rng = np.random.default_rng(0)
    silent = Examples(x=np.zeros((10, 9), dtype=np.int64))
    data = [make(10, rng), silent, make(10, rng)]
    engine = Embedded(model, signature.task, SETTINGS["sgd"], Pool.of(data, ["a", "b", "c"]))
    weights = model.init(rng)
    both = engine.updates(weights, [0, 1, 2], generator)
    alone = engine.updates(weights, [0], generator)
    assert all(not rows[1].any() for rows in both.values())
    for name in both:
        torch.testing.assert_close(both[name][0], alone[name][0], rtol=1e-5, atol=1e-6)


def test_a_client_that_diverges_does_not_disturb_those_computed_beside_it() -> None:
    model = Mlp(hidden=(8,)).build(Signature(Task.CLASSIFY, (4,), 5))
    rng = np.random.default_rng(0)
    data = [images(10, rng, (4,)) for _ in range(3)]
    broken = Examples(x=np.full((10, 4), np.nan, dtype=np.float32), y=data[1].y)
    weights = model.init(rng)
    settings = FederationPlan(batch=5, clip=1.0)
    well, ill = (
        Embedded(model, Task.CLASSIFY, settings, Pool.of(parts, ["a", "b", "c"])).updates(weights, [0, 1, 2], generator)
        for parts in (data, [data[0], broken, data[2]])
    )
    for name in well:
        assert torch.isnan(ill[name][1]).any()
        torch.testing.assert_close(ill[name][[0, 2]], well[name][[0, 2]])


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(1, 3),
)
@examples_of(deadline=None)
def test_every_example_is_seen_once_an_epoch_and_only_by_its_owner(sizes: list[int], batch: int, epochs: int) -> None:
    sizes = sorted(sizes, reverse=True)
    data = [Examples(x=np.zeros((n, 1), dtype=np.float32), y=np.zeros(n, dtype=np.int64)) for n in sizes]
    pool = Pool.of(data, [str(n) for n in sizes])
    rngs = [np.random.default_rng(i) for i in range(len(sizes))]
    plan = schedule(pool, range(len(sizes)), batch, epochs, rngs)
    assert list(plan.active) == sorted(plan.active, reverse=True)
    for client, size in enumerate(sizes):
        steps = steps_of(size, batch, epochs)
        assert [client < a for a in plan.active] == [s < steps for s in range(len(plan.active))]
        rows, share = plan.rows[:steps, client].numpy(), plan.share[:steps, client].numpy()
        own = range(int(pool.starts[client]), int(pool.starts[client]) + size)
        assert set(rows.flatten().tolist()) <= set(own)
        counted = rows[share > 0]
        assert sorted(counted.tolist()) == sorted(list(own) * epochs)
        np.testing.assert_allclose(share.sum(1), 1, rtol=1e-5)
        assert not plan.share[steps:, client].any()
        for step in range(steps):
            width = plan.width[step]
            assert not share[step, width:].any()


@given(st.lists(st.integers(1, 25), min_size=2, max_size=6), st.sampled_from(["sgd", "adam"]))
@examples_of(deadline=None, max_examples=25)
def test_a_clients_update_does_not_depend_on_whom_it_is_computed_with(sizes: list[int], optimizer: Any) -> None:
    model = Mlp(hidden=(6,)).build(Signature(Task.CLASSIFY, (4,), 5))
    rng = np.random.default_rng(0)
    data = [images(n, rng, (4,)) for n in sizes]
    weights = model.init(rng)
    pool = Pool.of(data, [str(i) for i in range(len(sizes))])
    engine = Embedded(model, Task.CLASSIFY, FederationPlan(batch=4, lr=0.01, optimizer=optimizer), pool)
    together = engine.updates(weights, range(len(sizes)), generator)
    for client in range(len(sizes)):
        alone = engine.updates(weights, [client], generator)
        for name in alone:
            torch.testing.assert_close(together[name][client], alone[name][0], rtol=1e-3, atol=1e-5)


def test_torchs_number_of_threads_is_put_back() -> None:
    torch.set_num_threads(2)
    with pytest.raises(RuntimeError, match="inside"), one_thread():
        assert torch.get_num_threads() == 1
        raise RuntimeError("inside")
    assert torch.get_num_threads() == 2


def _shapes(model: Model) -> Sequence[tuple[str, int]]:
    return [(layer.name, layer.size) for layer in model.layout]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_initial_weights_are_spread_like_torchs_own(case: Case) -> None:
    architecture, signature, plain, _ = case
    model = architecture.build(signature)
    weights = model.init(np.random.default_rng(0))
    assert model.layout[-1].name == "out"
    assert [(name, len(values)) for name, values in weights.items()] == _shapes(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        torchs = [{n.removesuffix("_l0"): p.detach() for n, p in plain().named_parameters()} for _ in range(30)]
    drawn = [model.init(np.random.default_rng(seed)) for seed in range(30)]
    for layer in model.layout:
        tensor = layer.tensors[0][0]
        ours = np.stack([weights[layer.name][layer.span(tensor)] for weights in drawn])
        assert ours.dtype == np.float32
        theirs = torch.stack([one[f"{layer.name}.{tensor}"] for one in torchs])
        assert np.std(ours) == pytest.approx(float(theirs.std()), rel=0.1)
