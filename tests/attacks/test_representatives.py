"""Representatives of clients: what a client's update gives away, and what cannot be told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
import torch

from fedleak.attacks.reconstruct.labels import present, slots
from fedleak.attacks.reconstruct.optim import adam, lbfgs
from fedleak.attacks.reconstruct.representatives import Inversion, PaperInversion, RepresentativeSet, representatives
from fedleak.core import FloatArray, Layer, Params, Task, rng_for
from fedleak.errors import AttackError
from fedleak.federation.federation import initial, make_clients, train
from fedleak.federation.model import Model, Signature
from fedleak.federation.models.strided import StridedCnn
from fedleak.plan.plan import FederationPlan, PopulationPlan
from fedleak.population.datasets.mnist_clients import MnistClients
from fedleak.population.prepare import prepare

SHAPE = (1, 8, 8)


@dataclass(frozen=True)
class Trained:
    model: Model
    before: Params
    updates: Params
    means: FloatArray  # (clients, 10, *SHAPE): of each class of a client
    has: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@cache
def trained(rounds: int = 1) -> Trained:
    """The last round of a federation of four clients with three digits each."""
    data = MnistClients(source="digits", clients=4, examples=30)
    prepared = prepare(data, PopulationPlan(prior="none"), 0)
    model = StridedCnn(channels=(8, 16), strides=(2, 1), activation="elu").build(Signature(Task.CLASSIFY, SHAPE, 10))
    clients = make_clients(prepared.shares, 0)
    before = initial(model, 0)
    plan = FederationPlan(rounds=rounds, fraction=1.0, lr=0.05, batch=10)
    for done in train(model, clients, plan, (), None, 0):
        updates, present = done.updates, done.clients
        if done.number < rounds:
            before = done.weights
    means = np.zeros((4, 10, *SHAPE), dtype=np.float32)
    has = np.zeros((4, 10), dtype=np.bool_)
    for row, client in enumerate(present):
        held = clients[client].data
        assert held.y is not None
        for digit in np.unique(held.y):
            means[row, digit], has[row, digit] = held.x[held.y == digit].mean(axis=0), True
    return Trained(model, before, updates, means, has)


def found(run: Trained, settings: Inversion, **means: object) -> RepresentativeSet:
    return representatives(
        run.model,
        run.before,
        run.updates,
        settings,
        shape=SHAPE,
        rng=rng_for(0),
        **means,  # type: ignore[arg-type]
    )


def alike(run: Trained, images: FloatArray) -> float:
    """Mean correlation of each class's representative with the mean of the client's digits of that class."""
    rows = [(images[i, c].ravel(), run.means[i, c].ravel()) for i, c in np.argwhere(run.has)]
    return float(np.mean([np.corrcoef(mine, theirs)[0, 1] for mine, theirs in rows]))


def test_classes_of_a_client_are_told_from_the_last_bias() -> None:
    run = trained()
    shares = present(run.model.layout, run.updates).shares
    assert np.array_equal(shares > 0, run.has)
    assert np.allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("optimizer", ["lbfgs", "adam"])
def test_representatives_reproduce_the_update_and_resemble_the_data(optimizer: str) -> None:
    run = trained()
    settings = Inversion(optimizer=optimizer, iterations=40)  # type: ignore[arg-type]
    got = found(run, settings)
    assert got.images.min() >= 0 and got.images.max() <= 1
    assert (got.error < 0.5).all()
    # A stranger's mean digits of these classes resemble them less than the client's own.
    assert alike(run, got.by_class(10)) > 0.7


def test_the_papers_distance_is_euclidean_and_so_depends_on_the_length_of_an_update() -> None:
    run = trained()
    gamma = np.full(4, 0.05 * 3, dtype=np.float32)  # three steps of ten digits
    literal = PaperInversion(iterations=25)
    assert literal.optimizer == "lbfgs" and (literal.variation, literal.power) == (1.5e-4, 1.25)
    got = found(run, literal, gamma=gamma)
    assert alike(run, got.by_class(10)) > 0.5
    longer = replace(run, updates={name: 3 * rows for name, rows in run.updates.items()})
    # The same direction, thrice as long: an angle does not see that.
    assert not np.allclose(found(longer, literal, gamma=gamma).images, got.images, atol=1e-2)
    few = Inversion(iterations=5)
    assert np.allclose(found(longer, few).images, found(run, few).images, atol=1e-3)
    with pytest.raises(AttackError, match="needs gamma"):
        found(run, literal)


def test_unrolled_steps_come_nearer_to_an_update_of_several_steps() -> None:
    run = trained()
    scaled = found(run, Inversion(iterations=30, variation=0))
    unrolled = found(run, Inversion(iterations=30, variation=0, local="unrolled", unroll=3), lr=0.05)
    assert unrolled.error.mean() < scaled.error.mean()


def test_a_warm_start_gets_further_in_as_few_steps() -> None:
    run = trained(3)
    cold = found(run, Inversion(iterations=3))
    warm = found(run, Inversion(iterations=3), start=found(run, Inversion(iterations=30)).by_class(10))
    assert warm.error.mean() < cold.error.mean()


def test_clients_together_give_what_each_gives_alone() -> None:
    run = trained()
    labels, _ = slots(present(run.model.layout, run.updates).shares, 1)
    start = rng_for(1).random((4, 10, *SHAPE), dtype=np.float32)
    whole = found(run, Inversion(iterations=8), start=start, labels=labels)
    for i in range(4):
        rows = {name: values[i : i + 1] for name, values in run.updates.items()}
        one = representatives(
            run.model,
            run.before,
            rows,
            Inversion(iterations=8),
            shape=SHAPE,
            rng=rng_for(0),
            start=start[i : i + 1],
            labels=labels[i : i + 1],
        )
        assert np.allclose(one.images[0], whole.images[i], atol=2e-2)


def test_places_that_a_client_does_not_need_stay_empty() -> None:
    labels, weights = slots(np.array([[0.5, 0.5, 0], [0, 0, 1]], dtype=np.float32), 2)
    assert labels.tolist() == [[0, 0, 1, 1], [2, 2, -1, -1]]
    assert weights.tolist() == [[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]]
    run = trained()
    given = np.array([[0, 1], [2, -1], [3, -1], [4, 5]])
    got = found(run, Inversion(iterations=2), labels=given)
    assert not got.images[1, 1].any() and got.images[1, 0].any()


def test_a_last_layer_without_a_bias_is_refused_unless_labels_are_given() -> None:
    run = trained()
    without = (*run.model.layout[:-1], Layer("out", (("weight", (10, 16 * 16)),)))
    with pytest.raises(AttackError, match="has no bias"):
        present(without, run.updates)


def test_an_update_of_zeros_is_refused() -> None:
    run = trained()
    nothing = {name: np.where(np.arange(4)[:, None] == 2, 0, values) for name, values in run.updates.items()}
    with pytest.raises(AttackError, match="client 2 of 4 sent an update of zeros"):
        representatives(run.model, run.before, nothing, Inversion(), shape=SHAPE, rng=rng_for(0))


def test_unrolling_without_a_learning_rate_is_refused() -> None:
    with pytest.raises(AttackError, match="learning rate must be known"):
        found(trained(), Inversion(local="unrolled"))


@pytest.mark.parametrize("name", ["lbfgs", "adam"])
def test_a_quadratic_is_minimised_within_the_box(name: str) -> None:
    """Each row has its own target, some of it outside the box, and its own curvature."""
    rng = np.random.default_rng(0)
    target = torch.from_numpy(rng.uniform(-0.5, 1.5, (3, 20)).astype(np.float32))
    bend = torch.from_numpy(10 ** rng.uniform(-1, 1, (3, 20)).astype(np.float32))

    def objective(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (bend * (x - target).square()).sum(1), 2 * bend * (x - target)

    start = torch.full((3, 20), 0.5)
    x = lbfgs(objective, start, 60) if name == "lbfgs" else adam(objective, start, 400, 0.1)
    assert torch.allclose(x, target.clamp(0, 1), atol=5e-3)
