"""Several digits of one writer on a canvas: a multi-label task of real people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, derive
from fedleak.errors import DataError
from fedleak.population import fingerprint
from fedleak.population.datasets import mnist_writers
from fedleak.population.datasets.mnist_writers import Writing
from fedleak.population.population import Examples, Population, User

__all__ = ["WritersCanvas"]

_CELL = 20  # MNIST's digits were scaled to fit a box of this side


@dataclass(frozen=True, kw_only=True)
class WritersCanvas:
    """Canvases with a few of one writer's MNIST digits; the labels say which digits are on it, not how many or where.

    It stands for the multi-label photo collections of Gradient-Leaks (Orekondy et al., 2020), which cannot be passed
    on. Every digit is on one canvas only, so no two canvases share anything but the hand.
    """

    name: ClassVar[str] = "writers-canvas"

    canvases: Annotated[
        int, Meta(ge=4, description="canvases of each writer; writers with too few digits become background data")
    ] = 30
    least: Annotated[int, Meta(ge=1, le=9, description="the fewest digits on a canvas")] = 2
    most: Annotated[int, Meta(ge=1, le=9, description="the most digits on a canvas")] = 4

    def load(self, seed: int) -> Population:
        """Read MNIST by writer; the seed decides which digits meet on a canvas, but not who takes part."""
        if self.least > self.most:
            raise DataError(f"data set '{self.name}': least = {self.least} is more than most = {self.most}")
        train, test = mnist_writers.read(self.name)
        counts = self._counts(self.canvases)
        users, others = [], []
        for number, rows in train.by_writer():
            rng = derive(seed, self.name, number)
            if len(rows) < sum(counts):
                others.append(self._all(train, rows, rng))
                continue
            examples = self._compose(train, rows, rng.permutation(counts).tolist(), rng)
            users.append(User(UserId(f"writer-{number}"), examples, train.about(rows)))
        tests = [self._all(test, rows, derive(seed, self.name, "test", n)) for n, rows in test.by_writer()]
        return Population(
            users=tuple(users),
            task=Task.MULTI_LABEL,
            outputs=10,
            source=(
                f"Canvases with {self.least} to {self.most} MNIST digits of one writer each (writers from QMNIST); "
                "the labels are the digits on it."
            ),
            test=Examples.concat(tests),
            background=Examples.concat(others) if others else None,
            outputs_named=tuple(str(digit) for digit in range(10)),
        )

    def _counts(self, canvases: int) -> list[int]:
        """How many digits there are on each canvas: all numbers equally often, so that every writer needs as many."""
        return [self.least + i % (self.most - self.least + 1) for i in range(canvases)]

    def _all(self, source: Writing, rows: npt.NDArray[np.int64], rng: np.random.Generator) -> Examples:
        """Use as many of these digits as make whole canvases."""
        counts = self._counts(len(rows))
        whole = int(np.searchsorted(np.cumsum(counts), len(rows), side="right"))
        return self._compose(source, rows, counts[:whole], rng)

    def _compose(
        self, source: Writing, rows: npt.NDArray[np.int64], counts: Sequence[int], rng: np.random.Generator
    ) -> Examples:
        """Deal digits out to canvases, each to a random cell of a square grid."""
        side = math.ceil(math.sqrt(self.most))
        x = np.zeros((len(counts), 1, side * _CELL, side * _CELL), dtype=np.float32)
        y = np.zeros((len(counts), 10), dtype=np.float32)
        digits = iter(rng.permutation(rows).tolist())
        for i, count in enumerate(counts):
            for cell in rng.permutation(side * side)[:count].tolist():
                row = next(digits)
                top, left = _CELL * (cell // side), _CELL * (cell % side)
                x[i, 0, top : top + _CELL, left : left + _CELL] = _framed(source.images[row]) / np.float32(255)
                y[i, source.labels[row]] = 1
        return Examples(x=x, y=y, fingerprint=fingerprint.of_images(x))


def _framed(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Cut a digit out of its margins, in the middle of a cell; nothing of it is lost."""
    tall, wide = (np.flatnonzero(image.any(axis=axis)) for axis in (1, 0))
    if not len(tall):
        return np.zeros((_CELL, _CELL), dtype=image.dtype)
    cut = image[tall[0] : tall[-1] + 1, wide[0] : wide[-1] + 1][:_CELL, :_CELL]
    cell = np.zeros((_CELL, _CELL), dtype=image.dtype)
    top, left = ((_CELL - length) // 2 for length in cut.shape)
    cell[top : top + cut.shape[0], left : left + cut.shape[1]] = cut
    return cell
