"""MNIST divided into clients with few classes each, some of them with rotated digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import IntArray, Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.lazy import ndimage
from fedleak.population import fingerprint, sources
from fedleak.population.datasets.mnist_writers import read_idx
from fedleak.population.population import Examples, Population, User

__all__ = ["MnistClients", "turned"]

_CLASSES = 10
_TEST = 2000  # enough to tell accuracies a percent apart


@dataclass(frozen=True, kw_only=True)
class MnistClients:
    """MNIST digits of a few random classes per client, rotated on some clients as a personal property.

    The setting of Song et al. (2020, section VII-C): 10 clients, each with 100 digits of three random classes; the
    victim's digits are rotated. There it is one client; here it is a share of the clients, each with its own angle, so
    that an attack is judged on several victims. No two clients share a digit.

    The paper's server has an auxiliary set, "consistent to the global distribution of all the clients": here digits
    that no client has, of all ten classes, with the same share rotated by the same angles, digit by digit. So the
    server knows that there are rotated digits, but not whose. The test set is made in the same way.
    """

    name: ClassVar[str] = "mnist-clients"

    clients: Annotated[int, Meta(ge=2, le=1000, description="how many clients")] = 10
    examples: Annotated[int, Meta(ge=2, description="digits of each client")] = 100
    classes: Annotated[int, Meta(ge=1, le=_CLASSES, description="random classes of each client")] = 3
    rotated: Annotated[
        float, Meta(ge=0, le=1, description="share of the clients whose digits are all rotated, by one of the angles")
    ] = 0.5
    angles: Annotated[
        tuple[Annotated[float, Meta(ge=-180, le=180)], ...],
        Meta(min_length=1, description="degrees, counterclockwise; rotated clients take them in turn"),
    ] = (30.0, -30.0, 15.0, -15.0)
    auxiliary: Annotated[
        int,
        Meta(ge=0, le=4000, description="size of the server's auxiliary set, of digits that no client has; 0: none"),
    ] = 2000
    source: Annotated[
        Literal["mnist", "digits"],
        Meta(description="MNIST, or the 1,797 8x8 digits that ship with scikit-learn and need no download"),
    ] = "mnist"

    def load(self, seed: int) -> Population:
        """Deal the digits out; with another seed they are other clients."""
        images, labels, test, test_labels = _mnist(self.name) if self.source == "mnist" else _digits(seed)
        rng = rng_for(seed, self.name, "deal")
        piles = [rng.permutation(np.flatnonzero(labels == digit)) for digit in range(_CLASSES)]
        angle = self._angles(rng)
        users = []
        for number in range(self.clients):
            rows = self._take(piles, rng)
            users.append(
                User(
                    UserId(f"client-{seed}-{number:03}"),
                    _examples(turned(images[rows], float(angle[number])), labels[rows]),
                    {"rotation": f"{angle[number]:g}"},
                )
            )
        left = rng.permutation(np.concatenate(piles))[: self.auxiliary]
        shown = rng_for(seed, self.name, "test").permutation(len(test))[:_TEST]
        return Population(
            users=tuple(users),
            task=Task.CLASSIFY,
            outputs=_CLASSES,
            source=(
                f"{'MNIST' if self.source == 'mnist' else 'The 8x8 digits of scikit-learn'}, cut into {self.clients} "
                f"clients with {self.examples} digits of {self.classes} random classes each; the digits of "
                f"{int((angle != 0).sum())} clients are rotated."
            ),
            test=self._mixed(test[shown], test_labels[shown], rng),
            background=self._mixed(images[left], labels[left], rng) if len(left) else None,
            outputs_named=tuple(str(digit) for digit in range(_CLASSES)),
        )

    def _angles(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """The angle of each client; 0 where its digits are upright."""
        angle = np.zeros(self.clients)
        turned = rng.permutation(self.clients)[: round(self.rotated * self.clients)]
        angle[turned] = np.resize(self.angles, len(turned))
        return angle

    def _take(self, piles: list[IntArray], rng: np.random.Generator) -> IntArray:
        """Take a client's digits from the piles of their classes, as evenly as the number allows."""
        wanted = [len(part) for part in np.array_split(np.arange(self.examples), self.classes)]
        rows = []
        for digit, count in zip(rng.permutation(_CLASSES)[: self.classes].tolist(), wanted, strict=True):
            if len(piles[digit]) < count:
                raise DataError(
                    f"data set '{self.name}': no {count} digits '{digit}' are left for another client (source = "
                    f"'{self.source}'). Lower clients or examples, or raise classes"
                )
            rows.append(piles[digit][:count])
            piles[digit] = piles[digit][count:]
        return np.sort(np.concatenate(rows))

    def _mixed(
        self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> Examples:
        """Rotate as large a share of these digits as of the clients."""
        angle = np.where(rng.random(len(images)) < self.rotated, rng.choice(self.angles, len(images)), 0.0)
        mixed = images.copy()
        for one in np.unique(angle):
            mixed[angle == one] = turned(images[angle == one], float(one))
        return _examples(mixed, labels)


def turned(images: npt.NDArray[np.float32], degrees: float) -> npt.NDArray[np.float32]:
    """Rotate images (n, height, width) about their middle, to the left if positive."""
    if degrees == 0 or not len(images):
        return images
    # Linear interpolation: a spline would be prefiltered along the first axis too, and mix neighbouring images.
    moved = ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1)
    return np.clip(moved, 0.0, 1.0).astype(np.float32)


_Split = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.int64]]


def _mnist(dataset: str) -> _Split:
    files: Sequence[str] = sources.SOURCES[dataset].choices[0]
    folder = sources.find(dataset, files)
    train, train_y, test, test_y = (read_idx(folder / name) for name in files)
    for images, labels in ((train, train_y), (test, test_y)):
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{folder}: images and labels that are not MNIST's, or do not fit; download the files again"
            )
    return _scaled(train), train_y.astype(np.int64), _scaled(test), test_y.astype(np.int64)


def _digits(seed: int) -> _Split:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images, labels = (bunch.images / 16.0).astype(np.float32), bunch.target.astype(np.int64)
    order = rng_for(seed, "mnist-clients", "digits").permutation(len(images))
    train, test = np.split(order, [int(0.85 * len(order))])
    return images[train], labels[train], images[test], labels[test]


def _scaled(images: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    scaled: npt.NDArray[np.float32] = (images / np.float32(255)).astype(np.float32)
    return scaled


def _examples(images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> Examples:
    x = images[:, None]
    return Examples(x=x, y=labels, fingerprint=fingerprint.of_images(x))
