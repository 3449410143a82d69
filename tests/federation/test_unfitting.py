"""An update that does not fit the model is refused before it spoils a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fedleak.core import Params, Task, UserId
from fedleak.errors import TrainingError
from fedleak.federation.federation import Client, train
from fedleak.federation.hooks import Defence
from fedleak.federation.model import Signature
from fedleak.federation.models.mlp import Mlp
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples


@dataclass(frozen=True)
class Mangle(Defence):
    name: ClassVar[str] = "mangle"
    summary: ClassVar[str] = "returns what does not fit"
    how: str = ""

    def on_update(self, update: Params, rng: np.random.Generator) -> Params:
        last = list(update)[-1]
        return {
            "drop": {name: values for name, values in update.items() if name != last},
            "add": {**update, "extra": update[last]},
            "one number": {**update, last: update[last][:1]},
            "twice": {**update, last: np.concatenate([update[last], update[last]])},
        }[self.how]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("drop", r"layers that do not match the model .*out"),
        ("add", r"layers that do not match the model .*extra"),
        # One number would be spread over the whole layer without a word.
        ("one number", r"layer 'out' with shape \(1,\); the model has"),
        ("twice", r"layer 'out' with shape"),
    ],
)
def test_an_update_whose_layers_do_not_fit_the_model_is_refused(how: str, said: str) -> None:
    rng = np.random.default_rng(0)
    data = Examples(x=rng.random((4, 1, 2, 2), dtype=np.float32), y=rng.integers(0, 3, 4))
    model = Mlp(hidden=(4,)).build(Signature(Task.CLASSIFY, (1, 2, 2), 3))
    clients = [Client("d-1", UserId("u"), -1, data)]
    with pytest.raises(TrainingError, match=r"round 1: defence 'mangle' on client d-1 returned " + said):
        list(train(model, clients, FederationPlan(rounds=1, fraction=1.0), [Mangle(how)], None, 0))
