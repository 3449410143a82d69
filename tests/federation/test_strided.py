"""The shared model of the papers on reconstruction."""

from __future__ import annotations

import pytest
import torch

from fedleak.core import Task, rng_for
from fedleak.errors import PlanError
from fedleak.federation.engines.embedded import tensors
from fedleak.federation.model import Signature
from fedleak.federation.models.strided import StridedCnn


@pytest.mark.parametrize(
    ("side", "strides", "inputs"), [(28, (2, 1, 2, 1), 12_544), (64, (2, 1, 2, 2), 16_384)], ids=["table 1", "table 2"]
)
def test_the_papers_models_have_the_papers_sizes(side: int, strides: tuple[int, ...], inputs: int) -> None:
    model = StridedCnn(strides=strides).build(Signature(Task.CLASSIFY, (1, side, side), 10))
    assert [layer.name for layer in model.layout] == ["conv1", "conv2", "conv3", "conv4", "out"]
    assert dict(model.layout[-1].tensors)["weight"] == (10, inputs)


def test_clients_are_computed_beside_each_other_and_not_mixed() -> None:
    model = StridedCnn(channels=(3, 4), strides=(2, 1), activation="elu").build(Signature(Task.CLASSIFY, (2, 7, 9), 5))
    one, other = (tensors(model, model.init(rng_for(seed))) for seed in (0, 1))
    x = torch.rand(2, 3, 2, 7, 9, generator=torch.Generator().manual_seed(0))
    both = model.forward({key: torch.cat([one[key], other[key]]) for key in one}, x)
    assert both.shape == (2, 3, 5)
    assert torch.allclose(both[:1], model.forward(one, x[:1]), atol=1e-6)
    assert torch.allclose(both[1:], model.forward(other, x[1:]), atol=1e-6)


def test_strides_that_do_not_fit_the_channels_and_data_without_pixels_are_refused() -> None:
    with pytest.raises(PlanError, match="one stride for each convolution"):
        StridedCnn(channels=(4,), strides=(1, 2)).build(Signature(Task.CLASSIFY, (1, 8, 8), 10))
    with pytest.raises(PlanError, match="choose model 'mlp'"):
        StridedCnn().build(Signature(Task.CLASSIFY, (64,), 10))
