"""The loop of rounds: clients, selection, averaging, faults, resume."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from small_runs import PLAN, SIZES, Everything, run, same, small_model, some, some_clients

from fedleak.core import Task, UserId
from fedleak.errors import DataError, TrainingError
from fedleak.federation.federation import Client, initial, make_clients, train
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.utility import chance, evaluate
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples, Share, User


@pytest.fixture
def model() -> Model:
    return small_model()


@pytest.fixture
def few() -> tuple[Client, ...]:
    return some_clients()


def test_each_user_gets_an_anonymous_and_a_shadow_client_in_an_order_that_says_nothing() -> None:
    rng = np.random.default_rng(0)
    shares = [Share(User(UserId(f"u{i}"), some(4, rng)), some(2, rng), some(3, rng)) for i in range(40)]
    found = make_clients(shares, 5)
    assert len({d.id for d in found}) == len(found) == 80
    for candidate, share in enumerate(shares):
        mine = sorted((d for d in found if d.user == share.user.id), key=lambda d: d.shadow)
        assert [d.shadow for d in mine] == [-1, candidate]
        assert mine[0].data is share.private
        assert mine[1].data is share.prior
    place = [i for i, d in enumerate(found) if d.shadow < 0]
    names = [int(d.id[2:], 16) for d in found]
    users = [int(d.user[1:]) for d in found]
    assert place != sorted(range(0, 80, 2)) and place != list(range(40))
    assert abs(np.corrcoef(users, np.arange(80))[0, 1]) < 0.4
    assert abs(np.corrcoef(users, names)[0, 1]) < 0.4
    assert make_clients(shares, 5) == found
    assert [d.id for d in make_clients(shares, 6)] != [d.id for d in found]


def test_the_server_moves_by_the_mean_weighted_by_examples(model: Model, few: tuple[Client, ...]) -> None:
    before = initial(model, 1)
    for round_ in run(model, few):
        assert len(round_.clients) == 3
        assert round_.sizes.tolist() == [SIZES[d] for d in round_.clients]
        for name, rows in round_.updates.items():
            expected = sum(n * row.astype(np.float64) for n, row in zip(round_.sizes, rows, strict=True))
            np.testing.assert_allclose(round_.aggregate[name], expected / round_.sizes.sum(), atol=1e-6)
            np.testing.assert_array_equal(round_.weights[name], before[name] + round_.aggregate[name])
        before = round_.weights


def test_weighting_can_be_equal(model: Model, few: tuple[Client, ...]) -> None:
    for round_ in run(model, few, plan=replace(PLAN, weighting="equal")):
        for name, rows in round_.updates.items():
            np.testing.assert_allclose(round_.aggregate[name], rows.mean(0), atol=1e-6)


def test_an_update_worked_out_by_hand() -> None:
    """One linear layer from zero, one step: softmax regression's gradient is (p - y) x, with p = 1/2."""
    model = Mlp(hidden=(1,)).build(Signature(Task.CLASSIFY, (1,), 2))
    start = {"fc1": np.array([1.0, 0.0], np.float32), "out": np.zeros(4, np.float32)}
    one, three = (Examples(x=np.full((n, 1), x, np.float32), y=np.zeros(n, np.int64)) for n, x in ((1, 2.0), (3, 4.0)))
    pair = [Client("d-1", UserId("a"), -1, one), Client("d-2", UserId("b"), -1, three)]
    plan = FederationPlan(rounds=1, fraction=1.0, batch=10, lr=1.0)
    (round_,) = train(model, pair, plan, (), None, 1, weights=start)
    by_client = dict(zip(round_.clients.tolist(), round_.updates["out"].tolist(), strict=True))
    assert by_client == {0: [1.0, -1.0, 0.5, -0.5], 1: [2.0, -2.0, 0.5, -0.5]}
    assert round_.aggregate["out"].tolist() == [1.75, -1.75, 0.5, -0.5]
    assert round_.weights["out"].tolist() == [1.75, -1.75, 0.5, -0.5]


def test_the_number_selected_is_the_floor_of_the_share_and_at_least_one(model: Model) -> None:
    rng = np.random.default_rng(0)
    hundred = [Client(f"d-{i}", UserId(str(i)), -1, some(2, rng)) for i in range(100)]
    for fraction, expected in ((0.29, 29), (0.001, 1), (0.999, 99), (1.0, 100)):
        (round_,) = run(model, hundred, plan=replace(PLAN, rounds=1, fraction=fraction))
        assert len(set(round_.clients.tolist())) == expected


def test_selection_differs_between_rounds_and_its_order_is_not_sorted(model: Model, few: tuple[Client, ...]) -> None:
    chosen = [r.clients.tolist() for r in run(model, few, plan=replace(PLAN, rounds=8, fraction=1.0))]
    assert all(sorted(c) == list(range(6)) for c in chosen)
    assert len({tuple(c) for c in chosen}) > 4


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_two_workers_yield_the_bytes_of_one(few: tuple[Client, ...], model: Model, optimizer: Any) -> None:
    plan = replace(PLAN, fraction=1.0, optimizer=optimizer)
    model.group = 2  # three groups, to be shared by two threads
    for a, b in zip(run(model, few, plan=plan), run(model, few, plan=plan, workers=2), strict=True):
        assert same(a, b)


def test_two_workers_yield_the_bytes_of_one_for_convolutions_whatever_torchs_threads() -> None:
    model = Cnn().build(Signature(Task.CLASSIFY, (1, 28, 28), 10))
    rng = np.random.default_rng(0)
    users = [
        Client(
            f"d-{i}", UserId(str(i)), -1, Examples(x=rng.random((25, 1, 28, 28), np.float32), y=rng.integers(0, 10, 25))
        )
        for i in range(12)
    ]
    model.group = 3
    plan = FederationPlan(rounds=2, fraction=1.0, batch=10)
    before = torch.get_num_threads()
    runs = []
    try:
        for threads, workers in ((1, 1), (2, 1), (1, 2), (2, 2)):
            torch.set_num_threads(threads)
            runs.append(run(model, users, plan=plan, workers=workers))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert all(same(a, b) for other in runs[1:] for a, b in zip(runs[0], other, strict=True))


def test_a_resumed_run_yields_the_bytes_of_an_uninterrupted_one(model: Model, few: tuple[Client, ...]) -> None:
    everything = Everything()
    plan = replace(PLAN, rounds=6)
    whole = run(model, few, everything, plan=plan)
    rest = run(model, few, everything, plan=plan, start=4, weights=whole[3].weights)
    assert [r.number for r in rest] == [5, 6]
    assert all(same(a, b) for a, b in zip(whole[4:], rest, strict=True))


def test_fresh_data_is_everybodys_dealt_out_again_each_round(few: tuple[Client, ...], model: Model) -> None:
    plan = replace(PLAN, fraction=1.0, rounds=6)
    fresh = run(model, few, plan=plan, fresh_data=True)
    sizes = {tuple(one.sizes[np.argsort(one.clients)].tolist()) for one in fresh}
    assert len(sizes) > 1, "how much a client has is not repeated either"
    assert {tuple(sorted(row)) for row in sizes} == {tuple(sorted(SIZES))}
    same = run(model, few, plan=plan)
    assert any((one.updates["out"] != other.updates["out"]).any() for one, other in zip(fresh, same, strict=True))
    resumed = run(model, few, plan=plan, fresh_data=True, start=3, weights=fresh[2].weights)
    for one, other in zip(fresh[3:], resumed, strict=True):
        assert (one.updates["out"] == other.updates["out"]).all()
    assert (few[0].data.x == some_clients()[0].data.x).all(), "the clients' own data is left as it is"


def test_resuming_without_weights_is_refused(model: Model, few: tuple[Client, ...]) -> None:
    with pytest.raises(ValueError, match="weights"):
        run(model, few, start=2)


def test_another_seed_is_another_run(model: Model, few: tuple[Client, ...]) -> None:
    one, two = (next(iter(train(model, few, PLAN, (), None, seed))) for seed in (1, 2))
    assert not np.array_equal(one.weights["out"], two.weights["out"])


@pytest.fixture
def poisoned(few: tuple[Client, ...]) -> tuple[Client, ...]:
    bad = Examples(x=np.full((4, 5), np.inf, dtype=np.float32), y=np.zeros(4, dtype=np.int64))
    return (*few[:2], replace(few[2], data=bad), *few[3:])


def test_nan_stops_the_run_and_names_client_round_and_remedies(model: Model, poisoned: tuple[Client, ...]) -> None:
    with pytest.raises(TrainingError) as caught:
        run(model, poisoned, plan=replace(PLAN, fraction=1.0))
    for part in ("round 1", "d-000002", "fc1", "lr", "clip", 'on_nan = "skip"'):
        assert part in str(caught.value)


def test_nan_can_be_skipped_and_the_others_are_unharmed(model: Model, poisoned: tuple[Client, ...]) -> None:
    plan = replace(PLAN, fraction=1.0, on_nan="skip")
    for round_ in run(model, poisoned, plan=plan):
        assert [client for client, _ in round_.dropped] == ["d-000002"]
        assert "NaN" in round_.dropped[0][1]
        assert 2 not in round_.clients and len(round_.clients) == 5
        for name, rows in round_.updates.items():
            assert rows.shape[0] == len(round_.sizes) == 5
            assert np.isfinite(rows).all()
            expected = (round_.sizes / round_.sizes.sum()) @ rows
            np.testing.assert_allclose(round_.aggregate[name], expected, atol=1e-6)


def test_when_every_update_is_dropped_the_model_stays(model: Model, poisoned: tuple[Client, ...]) -> None:
    plan = replace(PLAN, rounds=2, fraction=1.0, on_nan="skip")
    for round_ in run(model, poisoned[2:3], plan=plan):
        assert len(round_.clients) == 0 and len(round_.dropped) == 1
        for name, values in initial(model, 1).items():
            assert round_.weights[name].tobytes() == values.tobytes()
            assert round_.updates[name].shape == (0, values.size)


def test_a_client_without_examples_is_named(model: Model, few: tuple[Client, ...]) -> None:
    empty = replace(few[1], data=few[1].data.take([]))
    with pytest.raises(DataError, match="d-000001"):
        run(model, (few[0], empty))


def test_missing_labels_are_explained(model: Model, few: tuple[Client, ...]) -> None:
    bare = replace(few[1], data=Examples(x=few[1].data.x))
    with pytest.raises(DataError, match=r"d-000001.*without labels"):
        run(model, (few[0], bare))
    with pytest.raises(DataError, match="no labels"):
        run(model, (bare,))


def test_a_federation_learns_the_digits() -> None:
    digits = load_digits()
    x, y = (digits.images / 16).astype(np.float32)[:, None], digits.target.astype(np.int64)
    pool, test = (Examples(x=x[rows], y=y[rows]) for rows in (slice(0, 1400), slice(1400, None)))
    users = [Client(f"d-{i}", UserId(str(i)), -1, pool.take(slice(i * 70, i * 70 + 70))) for i in range(20)]
    model = Cnn().build(Signature(Task.CLASSIFY, (1, 8, 8), 10))
    plan = FederationPlan(rounds=30, fraction=0.5, batch=10, lr=0.3)
    *_, last = train(model, users, plan, (), None, 1)
    assert chance(pool, test, Task.CLASSIFY) < 0.15
    assert evaluate(model, last.weights, test, Task.CLASSIFY) > 0.7
