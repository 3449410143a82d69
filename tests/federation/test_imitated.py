"""A model of one's own knows no clients, and is computed for several of them all the same."""

from __future__ import annotations

import numpy as np
import pytest

from fedleak.core import Task
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Signature
from fedleak.federation.models.imitated import Imitated
from fedleak.lazy import nn, torch


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.mark.parametrize("shared", [True, False])
def test_several_clients_are_computed_as_each_of_them_alone(shared: bool) -> None:
    model = Imitated(net, Signature(Task.CLASSIFY, (2, 3), 3))
    one = [tensors(model, model.init(np.random.default_rng(seed))) for seed in range(1 if shared else 4)]
    weights = {key: torch.cat([client[key] for client in one]) for key in one[0]}
    x = torch.rand((4, 5, 2, 3), generator=torch.Generator().manual_seed(0))
    together = model.forward(weights, x)
    alone = [model.forward(one[0 if shared else client], x[client][None]) for client in range(4)]
    assert together.shape == (4, 5, 3)
    assert torch.equal(together, torch.cat(alone))
