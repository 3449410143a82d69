"""What is known of images before an update is seen: what they are like on average, and how their pixels vary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedleak.games.recover import ExampleQuestions
from fedleak.lazy import torch

__all__ = ["Covariance", "known_images"]

_RIDGE = 0.1  # variance that every pixel has of its own, so that no direction is neglected
_DENSE = 3072  # pixels, up to which those of all channels have covariances; of one channel, beyond
_WIDTH, _SPREAD = 2.0, 0.1  # pixels and variance: how images vary where none are known

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Covariance:
    """A covariance of pixels, (pixels, pixels): of an image, of a channel, or of a row of it."""

    matrix: torch.Tensor
    inverse: torch.Tensor
    root: torch.Tensor

    @staticmethod
    def of(matrix: Values) -> Covariance:
        """From a positive definite matrix."""
        parts = (matrix, np.linalg.inv(matrix), np.linalg.cholesky(matrix))
        return Covariance(*(torch.from_numpy(part) for part in parts))

    def times(self, rows: torch.Tensor) -> torch.Tensor:
        """The product with every part of every row."""
        return self._with(self.matrix, rows)

    def inverse_times(self, rows: torch.Tensor) -> torch.Tensor:
        """The product of the inverse."""
        return self._with(self.inverse, rows)

    def draw(self, rng: np.random.Generator, rows: int, size: int) -> Values:
        """Images, less their mean, of a normal distribution with this covariance."""
        return np.asarray(self._with(self.root.T, torch.from_numpy(rng.normal(size=(rows, size)))).numpy())

    def _with(self, matrix: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return (rows.reshape(len(rows), -1, len(matrix)) @ matrix).view(len(rows), -1)


def known_images(questions: ExampleQuestions, source: str) -> tuple[Values, Covariance]:
    """The mean image of each class, (classes, pixels), and how images vary around the mean of all.

    `source` is "public", or "smooth" for one who knows no image.
    """
    height, width = questions.shape[1:]
    pixels = int(np.prod(questions.shape))
    part = pixels if pixels <= _DENSE else height * width if height * width <= _DENSE else width
    if source == "smooth":
        down, across = np.divmod(np.arange(part), width)
        apart = np.hypot(down[:, None] - down, across[:, None] - across)
        return np.full((questions.classes, pixels), 0.5), Covariance.of(
            _SPREAD * np.exp(-apart / _WIDTH) + _RIDGE * np.eye(part)
        )
    flat, labels = (np.asarray(values) for values in (questions.public.x, questions.public.y))
    flat = flat.reshape(len(flat), pixels).astype(np.float64)
    means = np.stack(
        [
            flat[labels == label].mean(axis=0) if (labels == label).any() else flat.mean(axis=0)
            for label in range(questions.classes)
        ]
    )
    off = (flat - flat.mean(axis=0)).reshape(-1, part)
    return means, Covariance.of(off.T @ off / len(off) + _RIDGE * np.eye(part))
