"""A user's own module with dropout and with running statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from fedleak.core import Params, Task, UserId, rng_for
from fedleak.defences.clip import Clip
from fedleak.defences.dp_fedavg import DpFedAvg
from fedleak.defences.dp_sgd import DpSgd
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, tensors
from fedleak.federation.federation import Client, Round, train
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.own import wrap
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

SIGNATURE = Signature(Task.CLASSIFY, (1, 4, 4), 3)
PLAN = FederationPlan(rounds=2, fraction=1.0, batch=4, lr=0.1)


class Net(nn.Module):
    def __init__(self, dropout: float = 0.5, norm: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.bn = nn.BatchNorm2d(2) if norm else nn.Identity()
        self.drop, self.out = nn.Dropout(dropout), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.drop(self.bn(self.conv(x)).relu().flatten(1)))
        return y


def crowd(sizes: Sequence[int] = (9, 5, 8)) -> list[Client]:
    rng = np.random.default_rng(0)
    return [
        Client(
            f"d-{i}",
            UserId(str(i)),
            -1,
            Examples(x=i + rng.random((n, 1, 4, 4), dtype=np.float32), y=rng.integers(0, 3, n)),
        )
        for i, n in enumerate(sizes)
    ]


def rounds(model: Model, workers: int = 1, defences: Sequence[Defence] = ()) -> list[Round]:
    return list(train(model, crowd(), PLAN, defences, None, 1, workers=workers))


@pytest.mark.parametrize("net", [lambda: Net(norm=False), lambda: Net(dropout=0.0), Net], ids=["drop", "norm", "both"])
def test_workers_and_torchs_own_generator_change_nothing(net: type[Net]) -> None:
    one = rounds(wrap(net, SIGNATURE))
    torch.rand(3)
    state = torch.random.get_rng_state()
    two = rounds(wrap(net, SIGNATURE), workers=2)
    assert torch.equal(torch.random.get_rng_state(), state)
    for a, b in zip(one, two, strict=True):
        assert all(np.array_equal(a.updates[name], b.updates[name]) for name in a.updates)


def test_who_else_is_computed_changes_nothing() -> None:
    model = wrap(Net, SIGNATURE)
    start = model.init(np.random.default_rng(0))
    data = [client.data for client in crowd((8, 4, 8))]
    engine = Embedded(model, Task.CLASSIFY, PLAN, Pool.of(data, ["0", "1", "2"]))

    def updates(clients: Sequence[int]) -> Params:
        found = engine.updates(start, clients, lambda stage, d: rng_for(1, stage, d))
        return {name: rows.numpy() for name, rows in found.items()}

    together, order = updates([0, 1, 2]), [2, 0]
    apart = updates(order)
    model.group = 3  # full batches only, so that groups need no padding
    grouped = updates([0, 1, 2])
    for name, rows in together.items():
        np.testing.assert_array_equal(apart[name], rows[order])
        np.testing.assert_array_equal(grouped[name], rows)


def test_dropout_acts_in_training_and_not_in_evaluation() -> None:
    dropping, plain = (wrap(lambda p=p: Net(p, norm=False), SIGNATURE) for p in (0.5, 0.0))
    weights = dropping.init(np.random.default_rng(0))
    x = torch.ones(1, 2, 1, 4, 4)
    shown = [model.forward(tensors(model, weights), x) for model in (dropping, plain, dropping)]
    assert torch.equal(shown[0], shown[1]) and torch.equal(shown[0], shown[2])
    first, without = rounds(dropping)[0], rounds(plain)[0]
    assert not np.array_equal(first.updates["out"], without.updates["out"])


def test_running_statistics_are_those_of_torch_and_their_weighted_mean_is_shared() -> None:
    model = wrap(lambda: Net(0.0), SIGNATURE)
    assert [layer.name for layer in model.layout] == ["conv", "bn", "bn:buffers", "out"]
    start = model.init(np.random.default_rng(0))
    plan = FederationPlan(rounds=1, fraction=1.0, batch=16, lr=0.1)
    clients = crowd((9, 3))
    (done,) = train(model, clients, plan, (), None, 1, weights=start)
    assert start["bn:buffers"].tolist() == [0, 0, 1, 1]
    weight, bias = start["conv"][:18].reshape(2, 1, 3, 3), start["conv"][18:]
    expected = []
    for client in done.clients:
        shown, kernel, offset = map(torch.from_numpy, (clients[client].data.x, weight, bias))
        seen = nn.functional.conv2d(shown, kernel, offset)
        mean, variance = seen.mean((0, 2, 3)), seen.transpose(0, 1).flatten(1).var(1)
        expected.append(np.concatenate([0.1 * mean.numpy(), 0.9 + 0.1 * variance.numpy()]))
    after = start["bn:buffers"] + done.updates["bn:buffers"]
    np.testing.assert_allclose(after, expected, atol=1e-5)
    sizes = np.array([len(clients[client].data) for client in done.clients])
    np.testing.assert_allclose(done.weights["bn:buffers"], sizes / 12 @ after, atol=1e-6)
    # Utility is measured with these: by hand for one example.
    x = torch.from_numpy(clients[0].data.x[:1])
    alone = model.forward(tensors(model, done.weights), x[None])
    module = model.load(done.weights).eval()  # type: ignore[attr-defined]
    torch.testing.assert_close(alone[0], module(x))


def test_one_example_alone_is_normalised_by_running_statistics() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    (done,) = train(wrap(lambda _: net, SIGNATURE), crowd((1,)), FederationPlan(rounds=1, fraction=1.0), (), None, 1)
    assert not done.updates["2:buffers"].any() and done.updates["3"].any()


def test_local_statistics_are_never_sent_and_weights_are_trained_the_same() -> None:
    shared, local = (rounds(wrap(Net, SIGNATURE, local=kept)) for kept in (False, True))
    assert [*local[0].updates] == ["conv", "bn", "out"]
    for one, other in zip(shared, local, strict=True):
        for name, rows in other.updates.items():
            np.testing.assert_array_equal(one.updates[name], rows)


def test_with_local_statistics_the_shared_model_uses_those_of_the_batch() -> None:
    model = wrap(lambda: Net(0.0), SIGNATURE, local=True)
    weights, x = model.init(np.random.default_rng(0)), torch.from_numpy(crowd()[0].data.x)
    module = model.load(weights).train()  # type: ignore[attr-defined]
    shown = model.forward(tensors(model, weights), x[None])[0]
    torch.testing.assert_close(shown, module(x))
    # Whoever was computed before changes nothing, and one example alone has the statistics that a module starts with.
    other = model.forward(tensors(model, weights), 5 + x[None])[0]
    assert not torch.equal(shown, other)
    assert torch.equal(model.forward(tensors(model, weights), x[None])[0], shown)
    flat = wrap(lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Linear(16, 3)), SIGNATURE, local=True)
    start = flat.init(np.random.default_rng(0))
    alone = flat.forward(tensors(flat, start), x[None, :1])[0]
    torch.testing.assert_close(alone, flat.load(start).eval()(x[:1]))  # type: ignore[attr-defined]


class Counting(nn.Module):
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.seen += x.mean()
        y: torch.Tensor = self.out(x.flatten(1) - self.seen)
        return y


def test_only_statistics_of_normalisation_may_stay_on_the_clients() -> None:
    assert [layer.name for layer in wrap(Counting, SIGNATURE).layout] == ["model:buffers", "out"]
    with pytest.raises(PlanError, match=r"'seen' in training, which is no statistic of a normalis.*averaged"):
        wrap(Counting, SIGNATURE, local=True)


def test_a_model_that_is_told_nothing_may_have_a_cumulative_average_if_it_is_local() -> None:
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16, momentum=None), nn.Linear(16, 3))
    assert rounds(wrap(lambda: net, SIGNATURE, local=True))


def test_clipping_acts_on_weights_and_leaves_buffers_alone() -> None:
    plain, clipped = (rounds(wrap(Net, SIGNATURE), defences=d)[0] for d in ((), (Clip(bound=1e-3),)))
    weights = [rows for name, rows in clipped.updates.items() if name != "bn:buffers"]
    np.testing.assert_allclose(np.linalg.norm(np.concatenate(weights, 1), axis=1), 1e-3, rtol=1e-4)
    np.testing.assert_array_equal(clipped.updates["bn:buffers"], plain.updates["bn:buffers"])


@pytest.mark.parametrize(
    ("defence", "why"),
    [(DpFedAvg(noise=1.0), "sent as they are, without clipping"), (DpSgd(noise=1.0), "BatchNorm mixes the examples")],
    ids=["dp-fedavg", "dp-sgd"],
)
def test_differential_privacy_is_refused_for_running_statistics_only(defence: Defence, why: str) -> None:
    with pytest.raises(PlanError, match=f"'{defence.name}'.*'bn:buffers': .*{why}"):
        rounds(wrap(Net, SIGNATURE), defences=(defence,))
    assert rounds(wrap(lambda: Net(norm=False), SIGNATURE), defences=(defence,))
    # Statistics that are never sent break no promise; dp-sgd computes every example by itself, so none is mixed in.
    assert rounds(wrap(Net, SIGNATURE, local=True), defences=(defence,))
