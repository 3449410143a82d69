"""What an attack may use of the machine: randomness, memory, threads, and a way to report progress."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["AttackContext"]


class AttackContext:
    """Handed to every attack beside its view, which holds what the adversary observes and nothing else."""

    def __init__(
        self,
        rng: np.random.Generator,
        *,
        memory: int = 2000,
        workers: int = 1,
        tick: Callable[[float], None] | None = None,
    ) -> None:
        """`memory` is in MB, `workers` are threads; predictions must not depend on the number of workers.

        `tick` is told every further share of the work that is done.
        """
        self.rng = rng
        self.memory = memory
        self.workers = workers
        self._tick, self._reported = tick, 0.0

    def progress(self, share: float) -> None:
        """Report how much of the work is done, from 0 to 1; for attacks that take minutes."""
        if self._tick is not None and share > self._reported:
            self._tick(share - self._reported)
            self._reported = share
