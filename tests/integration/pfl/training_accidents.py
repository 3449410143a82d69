"""What may happen to a simulation of pfl in the middle of its training."""

from __future__ import annotations

import os
import resource
import signal
from typing import Any

from pfl.callback.base import TrainingProcessCallback
from pfl.metrics import Metrics


class KillAfter(TrainingProcessCallback):
    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        if central_iteration + 1 == self.rounds:
            os.kill(os.getpid(), signal.SIGKILL)
        return False, Metrics()


class FillTheDisk(TrainingProcessCallback):
    """From some round on, no file may grow: what a full disk looks like."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
        if central_iteration + 1 == self.rounds:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
        return False, Metrics()
