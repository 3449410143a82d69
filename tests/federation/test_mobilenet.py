"""MobileNet: the depth and strides of the original, on images of any size."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedleak.core import Task, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Signature
from fedleak.federation.models.mobilenet import MobileNet
from fedleak.federation.utility import centralised, evaluate
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples


def test_the_full_network_is_the_original_layer_by_layer() -> None:
    model = MobileNet(width=1.0, halvings=5).build(Signature(Task.CLASSIFY, (3, 224, 224), 1000))
    names = [layer.name for layer in model.layout]
    assert names == ["stem", *(f"{kind}{i}" for i in range(1, 14) for kind in ("dw", "pw")), "out"]
    # 4.2 million in the paper, with the batch normalisation's scale and shift: ours has the same in its place.
    assert sum(layer.size for layer in model.layout) == 4_231_976
    strides = [name for name, stride in model.strides.items() if stride == 2]  # type: ignore[attr-defined]
    assert strides == ["stem", "dw2", "dw4", "dw6", "dw12"]


@pytest.mark.parametrize("halvings", range(6))
@pytest.mark.parametrize("shape", [(1, 28, 56), (3, 5, 3), (1, 1, 1)])
def test_images_of_any_size_fit(shape: tuple[int, ...], halvings: int) -> None:
    model = MobileNet(width=0.1, halvings=halvings).build(Signature(Task.MULTI_LABEL, shape, 4))
    weights = tensors(model, model.init(rng_for(0)))
    outputs = model.forward(weights, torch.rand(1, 2, *shape, generator=torch.Generator().manual_seed(0)))
    assert outputs.shape == (1, 2, 4)
    assert outputs.isfinite().all()


def test_it_learns_two_labels_that_lie_apart_in_a_image() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random((120, 2)) < 0.5).astype(np.float32)
    x = 0.1 * rng.random((120, 1, 8, 8), dtype=np.float32)
    x[:, 0, 1:3, 1:7] += y[:, 0, None, None]  # a bar that lies
    x[:, 0, 1:7, 5:7] += y[:, 1, None, None]  # a bar that stands
    rows = Examples(x=x, y=y)
    model = MobileNet(width=0.25, blocks=2, halvings=1).build(Signature(Task.MULTI_LABEL, (1, 8, 8), 2))
    settings = FederationPlan(rounds=10, fraction=1.0, batch=10, lr=0.1)
    assert evaluate(model, centralised(model, rows, settings, 0), rows, Task.MULTI_LABEL) > 0.95


def test_data_without_pixels_is_refused() -> None:
    with pytest.raises(PlanError, match=r"'mobilenet' needs images.*choose model 'mlp'"):
        MobileNet().build(Signature(Task.CLASSIFY, (64,), 10))
