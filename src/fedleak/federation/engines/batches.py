"""Which examples each client trains on at each step, for clients of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedleak.core import IntArray
from fedleak.errors import DataError
from fedleak.lazy import torch
from fedleak.population.population import Examples

__all__ = ["Pool", "Schedule", "steps_of", "schedule", "poisson_schedule"]


@dataclass(frozen=True, slots=True)
class Pool:
    """The data of all clients in one piece, so that a step over many clients gathers its examples at once."""

    x: torch.Tensor
    y: torch.Tensor | None
    starts: IntArray
    sizes: IntArray

    @staticmethod
    def of(parts: Sequence[Examples], names: Sequence[str]) -> Pool:
        """Put the clients' examples one after another; `names` are for messages."""
        for part, name in zip(parts, names, strict=True):
            if not len(part):
                raise DataError(f"client {name} has no examples to train on; leave its user out")
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        x = np.concatenate([part.x for part in parts])
        labels = [part.y for part in parts if part.y is not None]
        if labels and len(labels) < len(parts):
            missing = next(name for part, name in zip(parts, names, strict=True) if part.y is None)
            raise DataError(f"client {missing} has examples without labels while others have them")
        y = np.concatenate(labels) if labels else None
        return Pool(
            torch.from_numpy(x.astype(np.int64 if np.issubdtype(x.dtype, np.integer) else np.float32, copy=False)),
            None
            if y is None
            else torch.from_numpy(y.astype(np.int64 if np.issubdtype(y.dtype, np.integer) else np.float32, copy=False)),
            np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64),
            sizes,
        )

    def replace(self, client: int, data: Examples) -> None:
        """Put other examples on a client, as many as it has."""
        rows = slice(int(self.starts[client]), int(self.starts[client] + self.sizes[client]))
        assert self.y is not None and data.y is not None and len(data) == self.sizes[client]
        self.x[rows] = torch.from_numpy(data.x)
        self.y[rows] = torch.from_numpy(data.y)

    def redeal(self, other: Pool, rng: np.random.Generator) -> None:
        """Deal the examples of another pool out to the clients of this one, as many to each as it has."""
        order = torch.from_numpy(rng.permutation(len(self.x)))
        self.x[:] = other.x[order]
        if self.y is not None and other.y is not None:
            self.y[:] = other.y[order]

    def copy(self) -> Pool:
        """The same data, to stay as it is."""
        return Pool(self.x.clone(), None if self.y is None else self.y.clone(), self.starts, self.sizes)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The batches of clients that are trained together, most steps first: a prefix of them is at work at any step."""

    rows: torch.Tensor  # (steps, clients, batch) rows of the pool
    share: torch.Tensor  # (steps, clients, batch) weight of each row in its client's mean; 0 where it only fills
    active: tuple[int, ...]  # per step, how many clients are still at work
    width: tuple[int, ...]  # per step, the largest batch among them


def steps_of(size: int, batch: int, epochs: int) -> int:
    """How many local steps a client takes; the last batch of a pass may be smaller.

    >>> steps_of(25, 10, 2)
    6
    """
    return epochs * -(-size // batch)


def schedule(
    pool: Pool, clients: Sequence[int], batch: int, epochs: int, rngs: Sequence[np.random.Generator]
) -> Schedule:
    """Draw the order in which each client sees its examples; the clients come with the most steps first."""
    own, starts = pool.sizes[clients], pool.starts[clients]
    per_epoch = -(-own // batch)
    steps = np.arange(epochs * per_epoch[0])[:, None]
    last = own - (per_epoch - 1) * batch
    sizes = np.where(steps % per_epoch == per_epoch - 1, last, batch) * (steps < epochs * per_epoch)
    # Empty places repeat the client's own first example: its weight is 0, and nobody else's data is touched.
    rows = np.empty((len(clients), len(steps), batch), dtype=np.int64)
    rows[:] = starts[:, None, None]
    for client, rng in enumerate(rngs):
        passes = rows[client, : epochs * per_epoch[client]].reshape(epochs, -1)
        for epoch in range(epochs):
            passes[epoch, : own[client]] += rng.permutation(own[client])
    inside = np.arange(batch) < sizes[:, :, None]
    share = (inside / np.maximum(sizes, 1)[:, :, None]).astype(np.float32)
    active = (sizes > 0).sum(1)
    return Schedule(
        torch.from_numpy(np.ascontiguousarray(rows.transpose(1, 0, 2))),
        torch.from_numpy(share),
        tuple(active.tolist()),
        tuple(sizes.max(1).tolist()),
    )


def poisson_schedule(
    pool: Pool, clients: Sequence[int], batch: int, epochs: int, rngs: Sequence[np.random.Generator]
) -> Schedule:
    """The same number of steps, each of which sees each example with probability batch / own, independently.

    Differential privacy is accounted for such batches, not for a shuffled pass (Abadi et al., 2016). The weight is
    1 / batch, the expected size: the size that was drawn depends on who is in the data. A batch may be empty.
    """
    own, starts = pool.sizes[clients], pool.starts[clients]
    steps = epochs * -(-own // batch)
    drawn = [
        [np.flatnonzero(rng.random(n) < min(1.0, batch / n)) for _ in range(count)]
        for n, count, rng in zip(own.tolist(), steps.tolist(), rngs, strict=True)
    ]
    widest = max(1, max(len(rows) for batches in drawn for rows in batches))
    rows = np.empty((int(steps[0]), len(clients), widest), dtype=np.int64)
    rows[:] = starts[:, None]
    sizes = np.zeros((int(steps[0]), len(clients)), dtype=np.int64)
    for client, batches in enumerate(drawn):
        for step, found in enumerate(batches):
            rows[step, client, : len(found)] += found
            sizes[step, client] = len(found)
    inside = np.arange(widest) < sizes[:, :, None]
    # An example fewer in the data than in a batch counts as before: no batch is larger than the data.
    share = (inside / np.minimum(own, batch)[:, None]).astype(np.float32)
    return Schedule(
        torch.from_numpy(rows),
        torch.from_numpy(share),
        tuple((np.arange(int(steps[0]))[:, None] < steps).sum(1).tolist()),
        tuple(np.maximum(sizes.max(1), 1).tolist()),
    )
