import numpy as np
import pytest
import torch

from fedleak.federation.generator import Generator


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 8, 8), (1, 64, 64), (3, 32, 20)])
def test_images_have_the_wanted_shape_and_range(shape: tuple[int, ...]) -> None:
    generator = Generator(shape, 4, 0.1, np.random.default_rng(0))
    images = generator.draw(torch.arange(4), np.random.default_rng(1)).detach()
    assert images.shape == (4, *shape)
    assert float(images.min()) >= 0 and float(images.max()) <= 1


def test_before_training_noise_says_more_than_the_category() -> None:
    # A generator that begins with one image of each class ends with one: noise that does nothing is never learnt.
    generator = Generator((1, 28, 28), 10, 0.25, np.random.default_rng(0))
    with torch.no_grad():
        drawn = generator.draw(torch.arange(10).repeat(20), np.random.default_rng(1)).reshape(20, 10, -1)
    within = drawn.std(dim=0).mean()
    between = drawn.mean(dim=0).std(dim=0).mean()
    assert within > 2 * between


def test_category_and_identity_change_what_is_drawn() -> None:
    generator = Generator((1, 8, 8), 3, 0.1, np.random.default_rng(0)).eval()
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 100)).astype(np.float32))
    plain = generator(noise, torch.tensor([0]), torch.tensor([0]))
    assert not torch.allclose(plain, generator(noise, torch.tensor([1]), torch.tensor([0])))
    assert not torch.allclose(plain, generator(noise, torch.tensor([0]), torch.tensor([1])))
