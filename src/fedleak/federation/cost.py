"""What a defence costs besides utility: local steps, and computing time on the clients."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.federation.engines.batches import steps_of
from fedleak.federation.federation import Round
from fedleak.plan.plan import FederationPlan

__all__ = ["Clock", "local_steps", "matched_round"]


class Clock:
    """Counts the computing time that clients take, all threads together, and nothing of what is done with a round."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.updates = 0

    def through(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """Pass rounds on."""
        started = time.process_time()
        for done in rounds:
            self.seconds += time.process_time() - started
            self.updates += len(done.clients)
            yield done
            started = time.process_time()

    @property
    def per_update(self) -> float | None:
        """Seconds for one update; None where there was none."""
        return self.seconds / self.updates if self.updates else None


def local_steps(sizes: Sequence[int] | npt.NDArray[np.integer[Any]], settings: FederationPlan) -> IntArray:
    """How many steps each of these amounts of data takes a client in a round."""
    return np.array([steps_of(int(size), settings.batch, settings.epochs) for size in sizes], dtype=np.int64)


def matched_round(
    numbers: npt.NDArray[np.integer[Any]],
    sizes: npt.NDArray[np.integer[Any]],
    before: Sequence[int],
    settings: FederationPlan,
) -> int:
    """The round after which a run has taken as many local steps as the undefended one can be expected to take at all.

    `numbers` and `sizes` are of every update: its round, and how many examples it was trained on; `before` is how many
    each client has without defences. A client that mixes in other users' data trains longer in each round, and a
    model may be better for that alone.
    """
    taken = np.bincount(numbers, weights=local_steps(sizes, settings), minlength=settings.rounds + 1)
    selected = max(1, int(settings.fraction * len(before) + 1e-9))
    wanted = settings.rounds * selected * float(local_steps(before, settings).mean())
    # Clients differ in size, so which of them are drawn decides over a few steps more or less.
    if taken.sum() <= 1.05 * wanted:
        return settings.rounds
    return int(np.searchsorted(np.cumsum(taken), wanted))
