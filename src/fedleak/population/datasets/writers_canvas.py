"""Several digits by one writer on a canvas: a multi-label task with real users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint
from fedleak.population.datasets import mnist_writers
from fedleak.population.datasets.mnist_writers import Writing
from fedleak.population.population import Examples, Population, User

__all__ = ["WritersCanvas"]

_CELL = 20  # MNIST's digits were scaled to fit a box of this side
_SHEETS = 2


@dataclass(frozen=True, kw_only=True)
class WritersCanvas:
    """Canvases with a few MNIST digits by one writer, labelled with which digits are present (multi-label).

    It stands in for the multi-label photo collections of Gradient-Leaks (Orekondy et al., 2020), which cannot be
    redistributed. Every digit is on one canvas only, so no two canvases share anything but the handwriting.

    A writer's canvases lie on two sheets, each with equally many of every digit, and a sheet is never divided. MNIST
    has about as many of each digit from every writer: if distributed over all canvases at once, a digit that is
    frequent on some of a writer's canvases would be rare on the others, and the two sides of a split opposites.

    With `class_bias`, users are made up instead: each has favourite digits, written by anybody, so that users differ in
    what is on their canvases, as photographers do, and not in handwriting. Canvases are then independent draws given
    the user.
    """

    name: ClassVar[str] = "writers-canvas"

    canvases: Annotated[
        int,
        Meta(
            ge=4,
            description="canvases of each writer, half on each sheet; writers with too few digits become background",
        ),
    ] = 30
    least: Annotated[int, Meta(ge=1, le=9, description="the fewest digits on a canvas")] = 2
    most: Annotated[int, Meta(ge=1, le=9, description="the most digits on a canvas")] = 4
    class_bias: (
        Annotated[
            float,
            Meta(
                gt=0,
                description="make up users who differ in what is on their canvases, with digits by anybody: how even "
                "their use of the ten digits is (a Dirichlet concentration, small is uneven); real writers if absent",
            ),
        ]
        | None
    ) = None
    people: Annotated[int, Meta(ge=2, le=10_000, description="number of made-up users, with class_bias")] = 40

    def load(self, seed: int) -> Population:
        """Read MNIST by writer; the seed decides which digits meet on a canvas, but not who takes part."""
        if self.least > self.most:
            raise DataError(f"data set '{self.name}': least = {self.least} is more than most = {self.most}")
        train, test = mnist_writers.read_writers(self.name)
        users, others = self._writers(train, seed) if self.class_bias is None else self._made_up(train, seed)
        whose = (
            "of one writer each"
            if self.class_bias is None
            else "by anybody, of made-up users with favourite digits of their own"
        )
        tests = [self._all(test, rows, rng_for(seed, self.name, "test", n)) for n, rows in test.by_writer()]
        return Population(
            users=tuple(users),
            task=Task.MULTI_LABEL,
            outputs=10,
            source=(
                f"Canvases with {self.least} to {self.most} MNIST digits {whose} (writers from QMNIST); "
                "the labels are the digits on it."
            ),
            test=Examples.concat(tests),
            background=Examples.concat(others) if others else None,
            outputs_named=tuple(str(digit) for digit in range(10)),
        )

    def _writers(self, train: Writing, seed: int) -> tuple[list[User], list[Examples]]:
        """Real writers, and the canvases of those who wrote too little."""
        users, others = [], []
        for number, rows in train.by_writer():
            rng = rng_for(seed, self.name, number)
            sheets = self._sheets(train.labels, rows, rng)
            if sheets is None:
                others.append(self._all(train, rows, rng))
                continue
            users.append(User(UserId(f"writer-{number}"), self._sheet_examples(train, sheets, rng), train.about(rows)))
        return users, others

    def _made_up(self, train: Writing, seed: int) -> tuple[list[User], list[Examples]]:
        """Made-up users with favourite digits; a quarter of all digits is set aside for the background."""
        order = rng_for(seed, self.name, "pools").permutation(len(train.labels))
        theirs, rest = np.split(order, [len(order) * 3 // 4])
        width = len(str(self.people - 1))  # the seed is part of the name: with another seed they are other users
        names = [f"person-{seed}-{number:0{width}}" for number in range(self.people)]
        users = [User(UserId(name), self._favourites(train, theirs, rng_for(seed, self.name, name))) for name in names]
        return users, [self._all(train, rest, rng_for(seed, self.name, "background"))]

    def _favourites(self, source: Writing, pool: npt.NDArray[np.int64], rng: np.random.Generator) -> Examples:
        """Draw every digit of every canvas by the user's habits, and use no image twice for one user."""
        assert self.class_bias is not None
        counts = rng.permutation(self._counts(self.canvases)).tolist()
        drawn = np.bincount(
            rng.choice(10, size=sum(counts), p=rng.dirichlet(np.full(10, self.class_bias))), minlength=10
        )
        piles = [rng.permutation(pool[source.labels[pool] == digit]) for digit in range(10)]
        for digit, (pile, count) in enumerate(zip(piles, drawn, strict=True)):
            if len(pile) < count:
                raise DataError(
                    f"data set '{self.name}': a user needs {count} images of the digit {digit}, but there are only "
                    f"{len(pile)}; lower canvases or raise class_bias"
                )
        rows = np.concatenate([pile[:count] for pile, count in zip(piles, drawn, strict=True)])
        return self._compose(source, rows, counts, rng)

    def _counts(self, canvases: int) -> list[int]:
        """How many digits there are on each canvas: all numbers equally often, so that every writer needs as many."""
        return [self.least + i % (self.most - self.least + 1) for i in range(canvases)]

    def _sheets(
        self, labels: npt.NDArray[Any], rows: npt.NDArray[np.int64], rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]] | None:
        """Deal a writer's digits to the sheets, none twice; None if the writer has too few of a digit."""
        piles = [rng.permutation(rows[labels[rows] == digit]).tolist() for digit in range(10)]
        sheets = []
        for part in np.array_split(np.arange(self.canvases), _SHEETS):
            each, rest = divmod(sum(self._counts(len(part))), 10)
            # What does not come out even is drawn for each sheet by itself.
            wanted = each + np.isin(np.arange(10), rng.permutation(10)[:rest])
            if any(len(pile) < count for pile, count in zip(piles, wanted, strict=True)):
                return None
            sheets.append(
                np.array([pile.pop() for pile, count in zip(piles, wanted, strict=True) for _ in range(count)])
            )
        return sheets

    def _sheet_examples(
        self, source: Writing, sheets: Sequence[npt.NDArray[np.int64]], rng: np.random.Generator
    ) -> Examples:
        lengths = [len(part) for part in np.array_split(np.arange(self.canvases), _SHEETS)]
        parts = [
            self._compose(source, rows, rng.permutation(self._counts(length)).tolist(), rng)
            for rows, length in zip(sheets, lengths, strict=True)
        ]
        return replace(Examples.concat(parts), document=np.repeat(np.arange(len(parts)), lengths))

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
