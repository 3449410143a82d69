"""MNIST by writer: the real users who wrote its digits, known from QMNIST (Yadav and Bottou, 2019)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.core import Task, UserId, rng_for
from fedleak.errors import DataError
from fedleak.population import fingerprint, sources, traits
from fedleak.population.population import Examples, Population, User

__all__ = ["MnistWriters", "Writing", "read_writers", "read_idx"]

_CLASS, _SERIES, _WRITER = 0, 1, 2  # columns of QMNIST's extended labels
_STUDENTS = 4  # the series of NIST's forms that high-school students filled in; 0-3: census employees
_TYPES: Mapping[int, np.dtype[Any]] = {0x08: np.dtype(">u1"), 0x0C: np.dtype(">i4")}


@dataclass(frozen=True, kw_only=True)
class MnistWriters:
    """MNIST training digits grouped by writer; the test set, by other writers, measures utility."""

    name: ClassVar[str] = "mnist-writers"

    min_digits: Annotated[int, Meta(ge=2, description="writers with fewer digits become background data")] = 100
    per_class: (
        Annotated[
            int,
            Meta(
                ge=2,
                description="keep exactly this many of each digit per writer, drawn by the seed, so that only "
                "handwriting tells writers apart; writers with fewer become background data; all digits if absent",
            ),
        ]
        | None
    ) = None

    def load(self, seed: int) -> Population:
        """Read the six files; only the choice for `per_class` depends on the seed."""
        train, test = read_writers(self.name)
        users, others = [], []
        for number, rows in train.by_writer():
            chosen = (
                self._choose(train.labels[rows], rng_for(seed, self.name, number))
                if len(rows) >= self.min_digits
                else None
            )
            if chosen is None:
                others.append(rows)
            else:
                rows = rows[chosen]
                users.append(User(UserId(f"writer-{number}"), _examples(train, rows), train.about(rows)))
        return Population(
            users=tuple(users),
            task=Task.CLASSIFY,
            outputs=10,
            source="MNIST's training digits by the users who wrote them (writers from QMNIST).",
            test=_examples(test, np.arange(len(test.labels))),
            background=_background(train, others) if others else None,
            outputs_named=tuple(str(digit) for digit in range(10)),
            traits=traits.HANDWRITING,
        )

    def _choose(self, labels: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64] | None:
        """Choose rows of a writer, in their order; None if there are too few of a digit."""
        if self.per_class is None:
            return np.arange(len(labels))
        kept = [rng.permutation(np.flatnonzero(labels == digit))[: self.per_class] for digit in range(10)]
        return np.sort(np.concatenate(kept)) if min(map(len, kept)) == self.per_class else None


@dataclass(frozen=True, slots=True)
class Writing:
    """Digits, what they show and who wrote them, row by row."""

    images: npt.NDArray[Any]  # (n, 28, 28), 0 to 255
    labels: npt.NDArray[Any]
    writer: npt.NDArray[Any]
    series: npt.NDArray[Any]  # of NIST's forms
    marks: fingerprint.Fingerprints

    def by_writer(self) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        """The rows of each writer."""
        order = np.argsort(self.writer, kind="stable")
        names, starts = np.unique(self.writer[order], return_index=True)
        return zip(names.tolist(), np.split(order, starts[1:]), strict=True)

    def about(self, rows: npt.NDArray[np.int64]) -> dict[str, str]:
        """What is known of the writer of these rows."""
        return {"group": "student" if int(self.series[rows[0]]) == _STUDENTS else "employee"}


def read_writers(dataset: str) -> tuple[Writing, Writing]:
    """Read MNIST's training and test digits with their writers, for the data set of this name."""
    files = sources.SOURCES[dataset].choices[0]
    folder = sources.find(dataset, files)
    train, train_y, test, test_y, train_rows, test_rows = (read_idx(folder / name) for name in files)
    _agree(folder / files[4], train_rows, train_y, train)
    test_rows = test_rows[: len(test_y)]
    _agree(folder / files[5], test_rows, test_y, test)

    def writing(images: npt.NDArray[Any], labels: npt.NDArray[Any], rows: npt.NDArray[Any]) -> Writing:
        # All at once: a product of small matrices per writer would keep a threaded BLAS busy with its threads.
        return Writing(images, labels, rows[:, _WRITER], rows[:, _SERIES], fingerprint.of_images(images[:, None]))

    return writing(train, train_y, train_rows), writing(test, test_y, test_rows)


def _examples(source: Writing, rows: npt.NDArray[np.int64]) -> Examples:
    x = (source.images[rows][:, None] / np.float32(255)).astype(np.float32)
    return Examples(x=x, y=source.labels[rows].astype(np.int64), fingerprint=source.marks[rows])


def _background(source: Writing, writers: Sequence[npt.NDArray[np.int64]]) -> Examples:
    owner = np.repeat(np.arange(len(writers)), [len(rows) for rows in writers])
    return replace(_examples(source, np.concatenate(writers)), owner=owner)


def _agree(file: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any], images: npt.NDArray[Any]) -> None:
    """Make sure that the files belong together, row by row."""
    if images.ndim != 3 or labels.ndim != 1 or rows.ndim != 2 or rows.shape[1] != 8:
        raise DataError(f"{file.parent}: these are not MNIST images and labels with QMNIST's 8-column labels")
    if not (len(images) == len(labels) == len(rows)) or not np.array_equal(rows[:, _CLASS], labels):
        raise DataError(f"{file}: its digits are not those of the MNIST files beside it; download all six again")


def read_idx(file: Path) -> npt.NDArray[Any]:
    """Read an idx file (magic number with type and rank, sizes, then the values, big-endian), compressed by gzip."""
    try:
        data = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read ({error}); download it again") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES:
        raise DataError(f"{file}: not an idx file (magic number {data[:4].hex() or 'missing'})")
    kind, rank = _TYPES[data[2]], data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise DataError(f"{file}: ends within its header; download it again")
    shape = tuple(np.frombuffer(data, ">u4", rank, 4).tolist())
    expected = start + kind.itemsize * int(np.prod(shape, dtype=np.int64))
    if len(data) != expected:
        raise DataError(f"{file}: {len(data)} bytes, but its header announces {expected}; download it again")
    values: npt.NDArray[Any] = np.frombuffer(data, kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))
