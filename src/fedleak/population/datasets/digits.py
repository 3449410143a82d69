"""Digits that ship with scikit-learn, assigned to synthetic users with their own habits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, rng_for
from fedleak.lazy import ndimage
from fedleak.population import fingerprint
from fedleak.population.population import Examples, Population, User

__all__ = ["Digits"]

_CLASSES = 10
_STRANGERS = 20  # users who wrote the background data
_WOBBLE = 0.25  # how much one user's drawings differ, in units of how much hands do at style 1


# Deviations at style 1: slant, rotation (radians), and the logarithms of width, height and weight of the stroke.
_HABITS = np.array([0.25, 0.2, 0.15, 0.15, 0.4])


@dataclass(frozen=True, slots=True)
class _Hand:
    """How a user writes: the mean of their drawings' habits."""

    habits: npt.NDArray[np.float64]

    @staticmethod
    def draw(strength: float, rng: np.random.Generator) -> _Hand:
        return _Hand(strength * _HABITS * rng.normal(size=5))

    def write(self, images: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.float32]:
        """Resample images (n, 8, 8) as this user would have written them, none of them twice alike."""
        wobble = _WOBBLE * _HABITS * rng.normal(size=(len(images), 5))
        slant, rotation, width, height, weight = (self.habits + wobble).T
        cos, sin = np.cos(rotation), np.sin(rotation)
        y, x = np.mgrid[-3.5:4, -3.5:4].reshape(2, -1)
        # From each pixel back to where it came from: scaled, slanted, then turned about the middle.
        tall, wide = (np.exp(-size)[:, None] * axis for size, axis in ((height, y), (width, x)))
        leant = slant[:, None] * tall + wide
        rows = cos[:, None] * tall - sin[:, None] * leant + 3.5
        columns = sin[:, None] * tall + cos[:, None] * leant + 3.5
        which = np.broadcast_to(np.arange(len(images))[:, None], rows.shape)
        moved = ndimage.map_coordinates(images, np.stack([which, rows, columns]), order=1)
        drawn = np.clip(moved, 0.0, 1.0) ** np.exp(weight)[:, None]
        written: npt.NDArray[np.float32] = drawn.reshape(images.shape).astype(np.float32)
        return written


@dataclass(frozen=True, kw_only=True)
class Digits:
    """scikit-learn's 8x8 digits, assigned to synthetic users with their own favourite digits, slant and size.

    A user's drawings are independent draws given the user: a digit is chosen by their habits, with replacement, and
    distorted anew each time. Without replacement, what is in a prior would be missing from that user's private data.

    It needs no download, so it is used for demos. The habits are synthetic: an audit of this data shows how the audit
    works, not how identifiable real users are; `mnist-writers` has real handwriting.
    """

    name: ClassVar[str] = "digits"

    users: Annotated[int, Meta(ge=2, le=10_000, description="number of synthetic users")] = 40
    examples: Annotated[int, Meta(ge=2, le=1000, description="digits of each user")] = 80
    class_bias: Annotated[
        float,
        Meta(
            gt=0, description="how even a user's use of the ten digits is: a Dirichlet concentration, small is uneven"
        ),
    ] = 1.0
    style: Annotated[
        float,
        Meta(ge=0, le=3, description="how much users differ in slant, rotation, size and stroke weight; 0: not at all"),
    ] = 1.0

    def load(self, seed: int) -> Population:
        """Make up the users; the same seed makes up the same ones."""
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images = (bunch.images / 16.0).astype(np.float32)
        labels = bunch.target.astype(np.int64)
        # Three pools of base digits, so that the test and background sets show no digit that a user also holds.
        order = rng_for(seed, "digits", "pools").permutation(len(images))
        pools = np.split(order, [int(0.6 * len(order)), int(0.8 * len(order))])
        return Population(
            users=tuple(self._user(i, images, labels, pools[0], seed) for i in range(self.users)),
            task=Task.CLASSIFY,
            outputs=_CLASSES,
            source=(
                "Synthetic users: the 8x8 digits of scikit-learn (from the UCI Optical Recognition of Handwritten "
                "Digits), each user with their own favourite digits and handwriting."
            ),
            test=self._strangers("test", images, labels, pools[1], seed),
            background=self._strangers("background", images, labels, pools[2], seed),
            outputs_named=tuple(str(digit) for digit in range(_CLASSES)),
        )

    def _user(
        self,
        number: int,
        images: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64],
        pool: npt.NDArray[np.int64],
        seed: int,
    ) -> User:
        rng = rng_for(seed, "digits", "user", number)
        favour = rng.dirichlet(np.full(_CLASSES, self.class_bias)) + 1e-6  # every digit stays possible
        hand = _Hand.draw(self.style, rng)
        weights = favour[labels[pool]] / np.bincount(labels[pool], minlength=_CLASSES)[labels[pool]]
        rows = rng.choice(pool, size=self.examples, p=weights / weights.sum())
        attributes = {
            "slant": "left" if hand.habits[0] < 0 else "right",
            "stroke": "bold" if hand.habits[4] < 0 else "fine",
        }
        width = len(str(self.users - 1))  # the seed is part of the name: with another seed they are other users
        return User(
            # Everything that is drawn for somebody is drawn by their name, so the name is part of every figure.
            UserId(f"person-{seed}-{number:0{width}}"),
            _examples(hand.write(images[rows], rng), labels[rows]),
            attributes,
        )

    def _strangers(
        self,
        role: str,
        images: npt.NDArray[np.float32],
        labels: npt.NDArray[np.int64],
        pool: npt.NDArray[np.int64],
        seed: int,
    ) -> Examples:
        """Write a pool of digits in the hands of users who take no part."""
        parts = np.array_split(pool, _STRANGERS)
        written = []
        for i, rows in enumerate(parts):
            rng = rng_for(seed, "digits", role, i)
            written.append(_Hand.draw(self.style, rng).write(images[rows], rng))
        return _examples(np.concatenate(written), labels[pool])


def _examples(images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> Examples:
    # By their exact values: two drawings after one template are alike, but neither is a copy.
    return Examples(x=images[:, None], y=labels, fingerprint=fingerprint.of_rows(images))
