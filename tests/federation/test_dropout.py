"""Dropout acts on local steps, repeatably, and never on a model that is only used."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.core import Params, Task, UserId
from fedleak.federation.federation import Client, train
from fedleak.federation.model import Architecture, Signature
from fedleak.federation.models.char_lm import CharLm
from fedleak.federation.models.transformer import Transformer
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples

PAIRS: dict[str, tuple[Architecture, Architecture]] = {
    "lstm": (CharLm(embedding=4, hidden=6), CharLm(embedding=4, hidden=6, dropout=0.3)),
    "transformer": (Transformer(width=8, heads=2), Transformer(width=8, heads=2, dropout=0.3)),
}


def trained(architecture: Architecture, workers: int = 1) -> Params:
    rng = np.random.default_rng(0)
    texts = [Examples(x=rng.integers(1, 9, (size, 7))) for size in (9, 4)]
    clients = [Client(f"d-{n}", UserId(f"u{n}"), -1, text) for n, text in enumerate(texts)]
    model = architecture.build(Signature(Task.NEXT_TOKEN, (7,), 9))
    model.group = 1  # something for a second worker to do
    plan = FederationPlan(rounds=3, fraction=1.0, batch=4)
    return list(train(model, clients, plan, (), None, 0, workers=workers))[-1].weights


@pytest.mark.parametrize(("plain", "dropping"), PAIRS.values(), ids=PAIRS)
def test_dropout_changes_training_and_repeats_itself(plain: Architecture, dropping: Architecture) -> None:
    without, first, again = trained(plain), trained(dropping), trained(dropping, workers=2)
    for layer in without:
        np.testing.assert_array_equal(first[layer], again[layer])
    assert max(np.abs(first[layer] - without[layer]).max() for layer in without) > 1e-4
