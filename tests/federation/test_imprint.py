"""The imprint block: what its gradients hold, what it leaves alone, and what has no place for it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedleak.core import Task, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.batches import Pool
from fedleak.federation.engines.embedded import Embedded, tensors
from fedleak.federation.model import Signature
from fedleak.federation.models.imprint import BINS, MEASURE, OUT, Imprinted, design, measured, signs, thresholds
from fedleak.federation.models.mlp import Mlp
from fedleak.plan.plan import FederationPlan, ImprintPlan
from fedleak.plan.read import parse
from fedleak.population.population import Examples

SHAPE = (1, 6, 6)
SIGNATURE = Signature(Task.CLASSIFY, SHAPE, 3)


def images(count: int, name: str) -> np.ndarray:
    rng = rng_for(0, "imprint", name)
    return (rng.random((count, *SHAPE)) * rng.uniform(0.1, 1, (count, 1, 1, 1))).astype(np.float32)


def imprinted(kind: str, bins: int = 256) -> Imprinted:
    plan = ImprintPlan(bins=bins, kind=kind)  # type: ignore[arg-type]
    return Imprinted(Mlp(hidden=(8,)).build(SIGNATURE), SHAPE, plan, design(plan, images(400, "public")))


def update(model: Imprinted, x: np.ndarray, batch: int) -> dict[str, np.ndarray]:
    pool = Pool.of([Examples(x=x, y=np.arange(len(x)) % 3)], ["one"])
    plan = FederationPlan(rounds=1, batch=batch, lr=0.1, epochs=1)
    engine = Embedded(model, Task.CLASSIFY, plan, pool)
    rows = engine.updates(model.init(rng_for(0, "weights")), [0], lambda *path: rng_for(0, *path))
    return {name: values.numpy()[0].astype(np.float64) for name, values in rows.items()}


@pytest.mark.parametrize(("kind", "batch"), [("linear", 12), ("scaled", 12), ("scaled", 3)])
def test_the_difference_of_neighbouring_bins_is_the_example_between_their_thresholds(kind: str, batch: int) -> None:
    model, x = imprinted(kind), images(12, "private")
    moved = update(model, x, batch)[BINS]
    layer = next(layer for layer in model.layout if layer.name == BINS)
    rows, bias = moved[layer.span("weight")].reshape(256, -1)[:, :36], moved[layer.span("bias")]
    if kind == "scaled":
        rows, bias = rows * signs(256)[:, None], bias * signs(256)
    weights, factor = rows[:-1] - rows[1:], bias[:-1] - bias[1:]
    cuts = thresholds(images(400, "public"), 256)
    place = np.searchsorted(cuts, measured(x)) - 1
    alone = [row for row in range(12) if (place == place[row]).sum() == 1 and 0 <= place[row] < 255]
    assert len(alone) >= 8
    for row in alone:
        found = weights[place[row]] / factor[place[row]]
        assert np.abs(found - x[row].ravel()).max() < 1 / 510


def test_a_scaled_block_leaves_the_model_behind_it_as_it_was() -> None:
    model, x = imprinted("scaled"), torch.from_numpy(images(5, "private"))[None]
    weights = tensors(model, model.init(rng_for(0, "weights")))
    base = tensors(model.base, model.base.init(rng_for(0, "weights")))
    assert torch.allclose(model.forward(weights, x), model.base.forward(base, x), atol=1e-4)


def test_a_round_begins_with_the_block_as_it_was_designed() -> None:
    model = imprinted("scaled", bins=8)
    first = model.init(rng_for(0, "weights"))
    moved = {name: values + 1 for name, values in first.items()}
    sent = model.restore(moved)
    for name, values in sent.items():
        expected = first if name in (MEASURE, BINS, OUT) else moved
        assert np.array_equal(values, expected[name])


def test_thresholds_increase_and_part_new_examples_evenly() -> None:
    cuts = thresholds(images(400, "public"), 64)
    assert (np.diff(cuts) > 0).all()
    counts = np.bincount(np.searchsorted(cuts, measured(images(2000, "other"))), minlength=65)
    assert counts.max() < 5 * 2000 / 64


PLAN = """
[dataset]
name = "mnist-clients"
source = "digits"
clients = 6
examples = 20
{dataset}

[population]
prior = "none"
users = 4

[model]
name = "strided-cnn"
channels = [4]
strides = [2]

[federation]
rounds = 1

[imprint]
{imprint}

[audit]
adversaries = ["{adversary}"]
{audit}

[[attack]]
name = "imprint"
"""


def written(**parts: str) -> str:
    given = {"dataset": "", "imprint": "bins = 16", "adversary": "malicious-aggregate-server", "audit": "", **parts}
    return PLAN.format(**given)


def refused(text: str) -> str:
    from fedleak.pipeline.prepare import fitting_model
    from fedleak.population.prepare import prepare

    with pytest.raises(PlanError) as error:
        plan = parse(text)
        fitting_model(plan, prepare(plan.dataset, plan.population, 0))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_adversary_without_the_capability_is_refused() -> None:
    text = written(adversary="aggregate-server")
    with pytest.raises(PlanError, match="choose_model"):
        parse(text)


def test_an_attack_without_a_block_is_refused() -> None:
    with pytest.raises(PlanError, match=r"needs an imprint block in the model; insert one with a table \[imprint\]"):
        parse(written().replace("[imprint]\nbins = 16", ""))


def test_more_bins_than_memory_are_refused() -> None:
    assert "use fewer bins" in refused(written(imprint="bins = 65536", audit="memory = 16"))


def test_a_server_without_public_examples_is_refused() -> None:
    assert "no public examples" in refused(written(dataset="auxiliary = 0"))


def test_a_model_that_reads_tokens_has_no_place_for_a_block() -> None:
    from fedleak.federation.models.char_lm import CharLm
    from fedleak.pipeline.active_adversary import imprinted as insert

    plan = parse(written())
    with pytest.raises(PlanError, match="'char-lm' has no place for an imprint block: it reads tokens"):
        insert(replaced(plan, model=CharLm()), Mlp().build(SIGNATURE), None)  # type: ignore[arg-type]


def replaced(plan: object, **changes: object) -> object:
    from dataclasses import replace

    return replace(plan, **changes)  # type: ignore[type-var]
