"""A generator that can draw before the attack begins: a decoder learnt from the auxiliary set, behind a mapper."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fedleak.federation.engines.embedded import one_thread
from fedleak.population.population import Examples

__all__ = ["Decoder", "Mapped", "learnt"]

_LATENT, _HIDDEN = 6, 160
_APART = 2.0  # weight of the divergence from the prior: what is drawn from must be where the auxiliary set is
_BATCH, _RATE = 64, 1e-3


class Decoder(nn.Module):
    """Latent numbers and a category to an image; the half of a conditional VAE that draws (Kingma et al., 2014)."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.shape, self.classes, self.size = shape, classes, int(np.prod(shape))
        self.first = nn.Linear(_LATENT + classes, _HIDDEN)
        self.second = nn.Linear(_HIDDEN + classes, 2 * _HIDDEN)
        self.last = nn.Linear(2 * _HIDDEN + classes, self.size)
        self.see = nn.Sequential(
            nn.Linear(self.size + classes, 2 * _HIDDEN), nn.ReLU(), nn.Linear(2 * _HIDDEN, 2 * _LATENT)
        )

    def forward(self, latent: torch.Tensor, category: torch.Tensor) -> torch.Tensor:
        """Logits of the pixels, (n, size)."""
        # The category at every layer, so that the latent numbers need not carry any of it.
        label = F.one_hot(category, self.classes).float()
        hidden = torch.relu(self.first(torch.cat([latent, label], dim=1)))
        hidden = torch.relu(self.second(torch.cat([hidden, label], dim=1)))
        logits: torch.Tensor = self.last(torch.cat([hidden, label], dim=1))
        return logits


def learnt(auxiliary: Examples, shape: tuple[int, ...], classes: int, steps: int, rng: np.random.Generator) -> Decoder:
    """Train the VAE on the auxiliary set and keep its decoder as it is from then on."""
    decoder = Decoder(shape, classes)
    _start(decoder, rng)
    x = torch.from_numpy(auxiliary.x.reshape(len(auxiliary), -1).astype(np.float32))
    y = torch.from_numpy(np.asarray(auxiliary.y).astype(np.int64))
    adam = torch.optim.Adam(decoder.parameters(), _RATE)
    with one_thread():
        for _ in range(steps):
            rows = torch.from_numpy(rng.integers(len(x), size=_BATCH))
            shown = torch.cat([x[rows], F.one_hot(y[rows], classes).float()], dim=1)
            mean, spread = decoder.see(shown).chunk(2, dim=1)
            noise = torch.from_numpy(rng.normal(size=mean.shape).astype(np.float32))
            logits = decoder(mean + noise * (spread / 2).exp(), y[rows])
            drawn = F.binary_cross_entropy_with_logits(logits, x[rows], reduction="sum")
            apart = 0.5 * (mean.square() + spread.exp() - spread - 1).sum()
            adam.zero_grad()
            torch.autograd.backward((drawn + _APART * apart) / _BATCH)
            adam.step()
    return decoder.requires_grad_(False).eval()


class Mapped:
    """Noise and category, through a small network of the victim's, to what the decoder draws from.

    The decoder stays as it is, so every image looks like one of the auxiliary set; only which ones are drawn is
    learnt. At first the mapper passes noise on.
    """

    def __init__(self, decoder: Decoder, rng: np.random.Generator, hidden: int = 64) -> None:
        self.decoder = decoder
        self.mapper = nn.Sequential(
            nn.Linear(_LATENT + decoder.classes + 1, hidden), nn.Tanh(), nn.Linear(hidden, _LATENT)
        )
        _start(self.mapper, rng)
        with torch.no_grad():
            list(self.mapper.parameters())[2].mul_(0.1)

    def parameters(self) -> Iterable[nn.Parameter]:
        """Those of the mapper."""
        return self.mapper.parameters()

    def draw(self, category: torch.Tensor, rng: np.random.Generator, victim: bool = True) -> torch.Tensor:
        """Images of these categories."""
        noise = torch.from_numpy(rng.normal(size=(len(category), _LATENT)).astype(np.float32))
        labels = F.one_hot(category, self.decoder.classes).float()
        moved = self.mapper(torch.cat([noise, labels, torch.full((len(noise), 1), float(victim))], dim=1))
        # Noise passes through weakened and is moved, within what the decoder has learnt to draw from.
        latent = 0.6 * noise + 1.5 * torch.tanh(moved)
        return torch.sigmoid(self.decoder(latent, category)).view(-1, *self.decoder.shape)


def _start(network: nn.Module, rng: np.random.Generator) -> None:
    with torch.no_grad():
        for values in network.parameters():
            if values.dim() > 1:
                bound = np.sqrt(3 / values.shape[1])
                values.copy_(torch.from_numpy(rng.uniform(-bound, bound, values.shape)))
            else:
                values.zero_()
