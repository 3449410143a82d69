"""Record a simulation of pfl: one object that is both a postprocessor and a callback.

    recorder = FedleakRecorder("fedleak-run")
    backend = SimulatedBackend(..., postprocessors=[clipping, recorder])
    algorithm.run(..., backend=backend, callbacks=[recorder])

Postprocessors run in the order of their list, so the place of the recorder decides what is recorded: before a privacy
mechanism the raw update of each user, after it the clipped or noised one. An adversary who sees what leaves a device
sees what a recorder in the last place does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pfl.callback.base import TrainingProcessCallback
from pfl.context import UserContext
from pfl.internal.ops.selector import get_default_framework_module, has_framework_module
from pfl.metrics import Metrics
from pfl.postprocessor.base import Postprocessor
from pfl.stats import ElementWeightedMappedVectorStatistics, MappedVectorStatistics
from pfl.version import __version__

from fedleak.errors import TraceError
from fedleak.record.recorder import Recorder, Reply

__all__ = ["FedleakRecorder"]


class FedleakRecorder(Postprocessor, TrainingProcessCallback):
    """Records the model of every central iteration and the statistics of each user of its cohort."""

    def __init__(
        self,
        folder: str | Path,
        *,
        dtype: Literal["float32", "float16"] = "float32",
        every: int = 1,
        layers: Sequence[str] | None = None,
        sums: bool = False,
    ) -> None:
        """Record into a folder.

        `dtype` is how updates are stored. With `every` the updates of every k-th iteration are recorded, and the model
        of all. `layers` are those whose updates are recorded, all if absent. With `sums` no single update is recorded,
        only the mean of each iteration and who took part.
        """
        self._recorder = Recorder(
            folder,
            origin={"framework": "pfl", "version": str(__version__)},
            dtype=dtype,
            every=every,
            layers=layers,
            sums=sums,
        )
        self._model: Any = None
        self._replies: list[Reply] = []
        self._unnamed = 0  # users without an id so far

    def on_train_begin(self, *, model: Any) -> Any:
        """Remember the model; its weights are read once users train, after other callbacks may have restored them."""
        self._model = model
        self._guard(self._check_processes)
        return Metrics()

    def postprocess_one_user(self, *, stats: Any, user_context: UserContext) -> tuple[Any, Any]:
        """Record the statistics of a user, as the postprocessors before this one left them."""
        self._guard(lambda: self._take(stats, user_context))
        return stats, Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Any]:
        """Record the iteration: its users and the new model."""
        self._guard(lambda: self._end_of_iteration(model))
        return False, Metrics()

    def on_train_end(self, *, model: Any) -> None:
        """Close the recording."""
        self._guard(self._recorder.close)

    def _guard(self, work: Callable[[], None]) -> None:
        """Let no error into the user's training."""
        if not self._recorder.active:
            self._replies.clear()
            return
        try:
            work()
        except Exception as error:
            self._recorder.failed(error)

    def _check_processes(self) -> None:
        processes = get_default_framework_module().distributed.world_size if has_framework_module() else 1
        if processes > 1:
            raise TraceError(
                f"pfl trains in {processes} processes, each with a part of the users; record a run of one process"
            )

    def _take(self, stats: Any, user: UserContext) -> None:
        if self._model is None:
            raise TraceError("the recorder is a postprocessor only; give it to `algorithm.run` as a callback, too")
        if not isinstance(stats, MappedVectorStatistics) or isinstance(stats, ElementWeightedMappedVectorStatistics):
            raise TraceError(f"statistics of the type {type(stats).__name__} are not one update of a model")
        if not self._replies:
            # A user's training leaves the model as it was sent to that user.
            self._recorder.sent(_arrays(self._model.get_parameters()))
        weight = float(stats.weight)
        if weight <= 0:
            raise TraceError(f"a user's statistics have the weight {weight}")
        client = str(user.user_id) if user.user_id is not None else self._no_name()
        self._replies.append(
            Reply(
                client=client,
                # Statistics are multiplied by their weight. Divided into new arrays: pfl uses the old for every user.
                arrays={name: array / np.float32(weight) for name, array in _arrays(stats).items()},
                # Only a weight tells the server how many examples a user has.
                examples=int(weight) if weight == user.num_datapoints else None,
                differences=True,
            )
        )

    def _no_name(self) -> str:
        self._unnamed += 1
        return f"unnamed {self._unnamed}"

    def _end_of_iteration(self, model: Any) -> None:
        self._model = model
        if self._replies:
            self._recorder.received(self._replies, (), _arrays(model.get_parameters()))
        self._replies = []


def _arrays(stats: Any) -> dict[str, npt.NDArray[Any]]:
    to_numpy = get_default_framework_module().to_numpy
    return {name: np.asarray(to_numpy(value)) for name, value in stats.items()}
