"""Per-example clipping, held against a loop that takes one example after another through a plain torch module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import PlainCnn, PlainLm, PlainMlp
from small_runs import PLAN, run, same, small_model, some_clients
from torch import nn

from fedleak.core import FloatArray, Task, UserId
from fedleak.defences.dp_sgd import DpSgd
from fedleak.federation.engines.batches import Pool, poisson_schedule, steps_of
from fedleak.federation.engines.embedded import Embedded
from fedleak.federation.federation import Client
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Architecture, Model, Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.own import wrap
from fedleak.federation.models.recurrent import WordLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

SETTINGS = FederationPlan(rounds=1, fraction=1.0, batch=4, lr=0.5, epochs=2)
CLASSES, LENGTH, WORDS = 3, 6, 9


def rngs(stage: str, client: int) -> np.random.Generator:
    return np.random.default_rng([client, *stage.encode()])


def texts(n: int) -> Examples:
    x = np.random.default_rng(n).integers(1, WORDS, (n, LENGTH))
    x[::3, 4:] = 0  # some are shorter
    return Examples(x=x)


def images(n: int) -> Examples:
    rng = np.random.default_rng(n)
    return Examples(x=rng.random((n, 1, 8, 8), dtype=np.float32), y=rng.integers(0, CLASSES, n))


def forwarded(model: Model) -> Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """One example through the model itself, for one client."""
    return lambda weights, x: model.forward({k: w.unsqueeze(0) for k, w in weights.items()}, x.unsqueeze(0)).squeeze(0)


def through(module: nn.Module) -> Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """One example through a plain module, which knows nothing of clients."""

    def forward(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        named = {f"{k}_l0" if k.startswith("lstm.") else k: w for k, w in weights.items()}
        out: torch.Tensor = torch.func.functional_call(module, named, (x,))
        return out

    return forward


def slow(
    model: Model,
    forward: Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor],
    start: dict[str, FloatArray],
    data: Examples,
    client: int,
    defence: DpSgd,
) -> dict[str, FloatArray]:
    """Algorithm 1 of Abadi et al. (2016), example by example, written apart from the engine."""
    weights = {
        f"{layer.name}.{tensor}": torch.tensor(start[layer.name][layer.span(tensor)]).view(shape)
        for layer in model.layout
        for tensor, shape in layer.tensors
    }
    drawing, noising = rngs("batches", client), rngs("on_sum/0", client)
    batch = min(SETTINGS.batch, len(data))
    batches = [
        np.flatnonzero(drawing.random(len(data)) < batch / len(data))
        for _ in range(steps_of(len(data), SETTINGS.batch, SETTINGS.epochs))
    ]
    for rows in batches:
        total = {key: torch.zeros_like(w) for key, w in weights.items()}
        for row in rows:
            leaves = {key: w.clone().requires_grad_() for key, w in weights.items()}
            x = torch.tensor(data.x[row : row + 1])
            if data.y is None:
                outputs = forward(leaves, x[:, :-1])
                loss = F.cross_entropy(outputs.flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
            else:
                loss = F.cross_entropy(forward(leaves, x), torch.tensor(data.y[row : row + 1]))
            gradients = torch.autograd.grad(loss, list(leaves.values()))
            norm = torch.cat([g.flatten() for g in gradients]).norm()
            for key, g in zip(leaves, gradients, strict=True):
                total[key] += g * min(1.0, defence.clip / float(norm))
        for key, w in weights.items():
            noise = torch.from_numpy(noising.standard_normal(tuple(w.shape), dtype=np.float32))
            w -= SETTINGS.lr * (total[key] + defence.noise * defence.clip * noise) / batch
    return {
        layer.name: torch.cat([weights[f"{layer.name}.{tensor}"].flatten() for tensor, _ in layer.tensors]).numpy()
        - start[layer.name]
        for layer in model.layout
    }


IMAGES = Signature(Task.CLASSIFY, (1, 8, 8), CLASSES)
TEXTS = Signature(Task.NEXT_TOKEN, (LENGTH,), WORDS)
CASES: dict[str, tuple[Architecture, Signature, nn.Module | None]] = {
    "mlp": (Mlp(hidden=(7,)), IMAGES, PlainMlp(64, 7, CLASSES)),
    "cnn": (Cnn(channels=(8, 16), hidden=32), IMAGES, PlainCnn(1, 8, CLASSES, 3)),
    "word-lm": (WordLm(embedding=5, hidden=6), TEXTS, PlainLm(WORDS, 5, 6)),
    "char-lm": (CharLm(embedding=5, hidden=6, layers=2), TEXTS, None),
    "transformer": (Transformer(width=8, heads=2), TEXTS, None),
}


@pytest.mark.parametrize("clip", [0.05, 100.0], ids=["all clipped", "none clipped"])
@pytest.mark.parametrize(("architecture", "signature", "module"), CASES.values(), ids=CASES)
def test_it_trains_like_a_loop_over_single_examples(
    architecture: Architecture, signature: Signature, module: nn.Module | None, clip: float
) -> None:
    model = architecture.build(signature)
    data = [(texts if signature is TEXTS else images)(n) for n in (11, 3, 8)]
    defence = DpSgd(noise=0.02 / clip, clip=clip)  # the same noise, so that none of the two loses its way in it
    start = dict(model.init(np.random.default_rng(0)))
    engine = Embedded(
        model, signature.task, SETTINGS, Pool.of(data, ["a", "b", "c"]), [defence], defended=[True, True, True]
    )
    fast = engine.updates(start, [2, 0, 1], rngs)
    forward = forwarded(model) if module is None else through(module)
    for row, client in enumerate([2, 0, 1]):
        wanted = slow(model, forward, start, data[client], client, defence)
        for name, values in wanted.items():
            np.testing.assert_allclose(fast[name][row].numpy(), values, atol=3e-5, rtol=2e-3)


def test_a_model_of_ones_own_is_clipped_example_by_example() -> None:
    def make(signature: Signature) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))

    model, data, defence = wrap(make, IMAGES), images(9), DpSgd(noise=0.1, clip=0.1)
    start = dict(model.init(np.random.default_rng(0)))
    fast = Embedded(model, Task.CLASSIFY, SETTINGS, Pool.of([data], ["a"]), [defence], defended=[True]).updates(
        start, [0], rngs
    )
    wanted = slow(model, forwarded(model), start, data, 0, defence)
    np.testing.assert_allclose(fast["1"][0].numpy(), wanted["1"], atol=1e-5)


@given(st.integers(1, 30), st.floats(0.01, 10), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_one_example_changes_a_step_by_no_more_than_the_clip(size: int, clip: float, seed: int) -> None:
    """The sensitivity that the noise is measured by: whatever the example, however extreme."""
    model, rng = small_model(), np.random.default_rng(seed)
    data = Examples(x=rng.normal(0, 100, (size, 5)).astype(np.float32), y=rng.integers(0, 3, size))
    start = model.init(rng)
    settings_ = replace(PLAN, batch=size, lr=1.0)  # one step that sees everything
    quiet = DpSgd(noise=1e-12, clip=clip)

    def moved(examples: Examples) -> FloatArray:
        engine = Embedded(model, Task.CLASSIFY, settings_, Pool.of([examples], ["a"]), [quiet], defended=[True])
        rows = engine.updates(start, [0], rngs)
        return np.concatenate([rows[layer.name][0].numpy() for layer in model.layout]) * min(len(examples), size)

    other = replace(data, x=np.concatenate([data.x[:-1], 1e3 * rng.normal(size=(1, 5)).astype(np.float32)]))
    assert np.linalg.norm(moved(data)) <= size * clip * 1.001 + 1e-4
    assert np.linalg.norm(moved(data) - moved(other)) <= 2 * clip * 1.001 + 1e-3


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=50)
def test_poisson_batches_draw_each_example_on_its_own_and_never_anothers(
    size: int, batch: int, epochs: int, seed: int
) -> None:
    pool = Pool.of([images(size), images(5)], ["a", "b"])
    found = poisson_schedule(pool, [0], batch, epochs, [np.random.default_rng(seed)])
    assert len(found.rows) == steps_of(size, batch, epochs) == len(found.active)
    for rows, share, width in zip(found.rows[:, 0], found.share[:, 0], found.width, strict=True):
        drawn = rows[share > 0].tolist()
        assert len(drawn) == len(set(drawn)) <= width
        assert set(drawn) <= set(range(size))
        if size <= batch:
            assert len(drawn) == size


def test_poisson_batches_have_the_planned_size_on_average_and_vary() -> None:
    pool = Pool.of([images(40)], ["a"])
    found = poisson_schedule(pool, [0], 10, 500, [np.random.default_rng(0)])
    sizes = (found.share[:, 0] > 0).sum(1).numpy()
    assert sizes.mean() == pytest.approx(10, abs=0.3)
    assert sizes.std() == pytest.approx(np.sqrt(40 * 0.25 * 0.75), rel=0.1)


def test_clients_that_do_not_defend_train_as_without_it_and_others_on_their_own() -> None:
    model, few = small_model(), some_clients()
    mixed = tuple(replace(client, defended=place % 2 == 0) for place, client in enumerate(few))
    plan = replace(PLAN, fraction=1.0)
    plain, changed = run(model, few, plan=plan)[0], run(model, mixed, DpSgd(noise=1.0), plan=plan)[0]
    for row, client in enumerate(plain.clients):
        alike = all(np.allclose(plain.updates[n][row], changed.updates[n][row], atol=1e-6) for n in plain.updates)
        assert alike is not mixed[client].defended


def test_it_repeats_itself_on_two_workers_and_when_resumed() -> None:
    few, defences = some_clients(), [DpSgd(noise=0.5)]
    model = small_model()
    model.group = 2
    plan = replace(PLAN, fraction=1.0)
    one, two = (run(model, few, *defences, plan=plan, workers=workers) for workers in (1, 2))
    assert all(same(a, b) for a, b in zip(one, two, strict=True))
    rest = run(model, few, *defences, plan=plan, start=1, weights=one[0].weights)
    assert all(same(a, b) for a, b in zip(one[1:], rest, strict=True))


def test_dropout_and_clipping_of_examples_go_together() -> None:
    model = CharLm(embedding=4, hidden=6, dropout=0.3).build(TEXTS)
    clients = [Client(f"d-{n}", UserId(f"u{n}"), -1, texts(size)) for n, size in enumerate((9, 4))]
    defence: Defence = DpSgd(noise=0.1)
    first, again = (run(model, clients, defence, plan=SETTINGS) for _ in range(2))
    assert same(first[0], again[0])
