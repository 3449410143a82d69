"""Attacks that differentiate a model whose running statistics are part of it."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from fedleak.attacks.reconstruct.representatives import Inversion, representatives
from fedleak.core import Task
from fedleak.federation.model import Signature
from fedleak.federation.models.own import wrap


@pytest.mark.parametrize("local", ["scaled", "unrolled"])
def test_gradient_inversion_ignores_buffers(local: str) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
    model = wrap(lambda _: net, Signature(Task.CLASSIFY, (1, 4, 4), 3))
    start = model.init(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    updates = {name: 0.01 * rng.standard_normal((2, len(w))).astype(np.float32) for name, w in start.items()}
    settings = Inversion(local=local, iterations=3)  # type: ignore[arg-type]

    def images() -> list[float]:
        found = representatives(
            model, start, updates, settings, shape=(1, 4, 4), rng=np.random.default_rng(2), lr=0.1
        ).images
        assert np.isfinite(found).all()
        return found.ravel().tolist()

    first = images()
    updates["1:buffers"] = updates["1:buffers"] * 100
    assert images() == first
    updates["1"] = updates["1"] + 1
    assert images() != first
