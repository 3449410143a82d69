"""The generator of Song et al. (2020, Tables I and II), which both GAN attacks on a federation train."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

__all__ = ["Generator", "NOISE", "sides"]

NOISE = 100
_SMALLEST = 4  # side of the map from which images are unfolded; 3 for the 28 pixels of MNIST


class Generator(nn.Module):
    """Noise, category and identity to an image with values in [0, 1], by deconvolutions of 5x5 with a stride of 2.

    The tables' embedding squeezes noise, category and identity, one after another, to 100 numbers. The category is
    given as one of so many, not as one number: a 9 is not three times a 3. The AC-GAN's own code, which the tables
    follow layer by layer, multiplies noise by an embedded label instead; noise is symmetric about 0, so the label is
    then seen only in magnitudes, and in as few steps as there are here the generator does not come to obey it.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, width: float, rng: np.random.Generator) -> None:
        super().__init__()
        channels, height, across = shape
        steps = sides(height), sides(across)
        deep = len(steps[0]) - 1
        # 384, 192, 96 before the image of MNIST, 512, 256, 128, 64 before that of AT&T.
        top = 384 if deep <= 3 else 512
        planes = [max(2, round(top * width / 2**n)) for n in range(deep)] + [channels]
        self.start = (planes[0], steps[0][0], steps[1][0])
        self.classes = classes
        self.embedding = nn.Linear(NOISE + classes + 1, NOISE)
        self.first = nn.Linear(NOISE, math.prod(self.start))
        layers: list[nn.Module] = []
        for n in range(deep):
            fits = [_fit(side[n], side[n + 1]) for side in steps]
            padding, more = (fits[0][0], fits[1][0]), (fits[0][1], fits[1][1])
            layers.append(nn.ConvTranspose2d(planes[n], planes[n + 1], 5, 2, padding, more))
            layers += [nn.BatchNorm2d(planes[n + 1]), nn.ReLU()] if n < deep - 1 else [nn.Tanh()]
        self.unfold = nn.Sequential(*layers)
        with torch.no_grad():
            for name, values in self.named_parameters():
                if values.dim() == 1:
                    values.fill_(1.0 if name.endswith("weight") else 0.0)
                    continue
                # Deconvolutions as in DCGAN (Radford et al., 2016); what comes before keeps the scale of its input, so
                # that labels and noise arrive with the strength they were given.
                scale = 0.02 if name.startswith("unfold") else 1 / math.sqrt(values.shape[1])
                if name.startswith("embedding"):
                    scale = 1 / math.sqrt(NOISE)
                values.copy_(torch.from_numpy(rng.normal(0.0, scale, values.shape)))

    def forward(self, noise: torch.Tensor, category: torch.Tensor, identity: torch.Tensor) -> torch.Tensor:
        """(n, 100), (n,), (n,) to (n, channels, height, width); identity is 1 for the victim and 0 for others."""
        labels = torch.nn.functional.one_hot(category, self.classes).to(noise.dtype)
        mixed = self.embedding(torch.cat([noise, labels, identity[:, None].to(noise.dtype)], dim=1))
        images: torch.Tensor = self.unfold(torch.relu(self.first(mixed)).view(-1, *self.start))
        return (images + 1) / 2

    def draw(self, category: torch.Tensor, rng: np.random.Generator, victim: bool = True) -> torch.Tensor:
        """Images of these categories, from fresh noise."""
        noise = torch.from_numpy(rng.normal(size=(len(category), NOISE)).astype(np.float32))
        made: torch.Tensor = self(noise, category, torch.full_like(category, int(victim)))
        return made


def sides(side: int) -> list[int]:
    """The sides of the maps from the first to the image, each about twice the one before.

    >>> sides(28), sides(64), sides(8)
    ([3, 7, 14, 28], [4, 8, 16, 32, 64], [2, 4, 8])
    """
    found = [side]
    while found[0] > _SMALLEST or len(found) < 3:
        found.insert(0, max(1, found[0] // 2))
    return found


def _fit(before: int, after: int) -> tuple[int, int]:
    """Padding and output padding with which a deconvolution of 5x5 and stride 2 gives a map of the wanted side."""
    rest = after - (2 * before - 1)
    return (1, 0) if rest == 2 else (2, rest)
