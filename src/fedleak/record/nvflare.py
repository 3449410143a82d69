"""Record a job of NVFlare: one component of its server.

    job.to_server(FedleakRecorder("/srv/fedleak-run"), id="fedleak")

or, in `config_fed_server.json`, an entry of `components` with the path `fedleak.record.nvflare.FedleakRecorder`.
Fedleak must be installed on the server; clients need nothing. A job without code of its own is built from listed
components only: then this path must be in the `class_allow_list` of the server's `resources.json`.

Workflows that send a model to clients and aggregate their results are recorded (FedAvg, ScatterAndGather, and
controllers that derive from ModelController). What arrives is what the client's filters let through, and what the
server's own input filters made of it: with a privacy filter, the filtered update; encrypted results cannot be recorded.
"""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from nvflare.apis.dxo import DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedleak.errors import TraceError
from fedleak.record.recorder import Recorder, Reply

__all__ = ["FedleakRecorder"]

Arrays = dict[str, npt.NDArray[Any]]


class FedleakRecorder(FLComponent):
    """Records what the server sends and receives in every training round."""

    def __init__(
        self,
        folder: str,
        dtype: Literal["float32", "float16"] = "float32",
        every: int = 1,
        layers: Sequence[str] | None = None,
        sums: bool = False,
        train_task: str = AppConstants.TASK_TRAIN,
    ) -> None:
        """Record into a folder of the server's machine; a relative one lies in the server's workspace.

        `dtype` is how updates are stored. With `every` the updates of every k-th round are recorded, and the model of
        all rounds. `layers` are those whose updates are recorded, all if absent. With `sums` no single update is
        recorded, only the mean of each round and who took part. `train_task` is the task that clients train by.
        """
        super().__init__()
        # NVFlare writes a job's configuration from the attributes that have the names of these arguments; this
        # constructor runs where the job is defined, too, so it must not touch the disk.
        self.folder = str(folder)
        self.dtype, self.every, self.sums, self.train_task = dtype, every, sums, train_task
        self.layers = None if layers is None else list(layers)
        self._recorder: Recorder | None = None
        self._lock = threading.RLock()  # each client's request is a thread of the server
        self._round: object = None  # the number of the round that is under way
        self._sent: Arrays = {}
        self._asked: set[str] = set()
        self._replies: dict[str, Reply] = {}
        self._lost: dict[str, str] = {}
        self._error = ""  # of the job
        self._handlers: Mapping[str, Callable[[FLContext], None]] = {
            EventType.START_RUN: self._on_start,
            EventType.BEFORE_TASK_DATA_FILTER: self._on_sent,
            EventType.BEFORE_PROCESS_SUBMISSION: self._on_submission,
            AppEventType.AFTER_CONTRIBUTION_ACCEPT: self._on_result,
            AppEventType.AFTER_SHAREABLE_TO_LEARNABLE: self._on_new_model,
            EventType.FATAL_SYSTEM_ERROR: self._on_error,
            EventType.END_RUN: self._on_end,
        }

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Take note of an event; no error leaves this method."""
        handler = self._handlers.get(event_type)
        if handler is None:
            return
        with self._lock:
            try:
                if event_type == EventType.START_RUN or (self._recorder is not None and self._recorder.active):
                    handler(fl_ctx)
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._recorder is not None:
            self._recorder.failed(error)
        else:
            self.logger.warning(f"Fedleak does not record this job: {error}")

    def _on_start(self, context: FLContext) -> None:
        folder = Path(self.folder).expanduser()
        if not folder.is_absolute():
            folder = Path(context.get_engine().get_workspace().get_root_dir()) / folder
        self._forget(None)
        self._recorder = Recorder(
            folder,
            origin={
                "framework": "nvflare",
                "version": importlib.metadata.version("nvflare"),
                "job": str(context.get_job_id()),
            },
            dtype=self.dtype,
            every=self.every,
            layers=self.layers,
            sums=self.sums,
        )

    def _on_sent(self, context: FLContext) -> None:
        """A client is about to be sent the model."""
        if context.get_prop(FLContextKey.TASK_NAME) != self.train_task:
            return
        task: Shareable = context.get_prop(FLContextKey.TASK_DATA)
        dxo = from_shareable(task)
        if dxo.data_kind != DataKind.WEIGHTS or not dxo.data:
            raise TraceError(f"task '{self.train_task}' carries no weights but {dxo.data_kind}")
        number = task.get_header(AppConstants.CURRENT_ROUND)
        if self._round is None or number != self._round:
            arrays = _arrays(dxo.data)
            self._finish(arrays)  # of a controller that does not say when it has a new model
            self._forget(number)
            self._sent = arrays
            self._the_recorder.sent(arrays)
        elif not _same(self._sent, dxo.data):
            raise TraceError(f"round {number} sends different models to its clients, which cannot be recorded")
        self._asked.add(_client(context))

    def _on_submission(self, context: FLContext) -> None:
        """A client's result reached the server; here only failures count."""
        result: Shareable = context.get_prop(FLContextKey.TASK_RESULT)
        if context.get_prop(FLContextKey.TASK_NAME) != self.train_task or self._of_other_round(result):
            return
        code = result.get_return_code()
        if code and code != ReturnCode.OK:
            self._lost[_client(context)] = f"failed: {code}"

    def _on_result(self, context: FLContext) -> None:
        """The workflow took a client's result, or did not."""
        result: Shareable | None = context.get_prop(AppConstants.TRAINING_RESULT)
        client = _client(context)
        if result is None or client not in self._asked or self._of_other_round(result):
            return
        if not context.get_prop(AppConstants.AGGREGATION_ACCEPTED, True):
            self._lost.setdefault(client, "its result was not accepted")
            return
        dxo = from_shareable(result)
        if dxo.data_kind not in (DataKind.WEIGHTS, DataKind.WEIGHT_DIFF):
            self._lost[client] = f"it sent no weights but {dxo.data_kind}"
            return
        if algorithm := dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM):
            raise TraceError(f"results are processed by {algorithm}, so the server does not see their weights")
        # The number of steps is what NVFlare weights a result by, and most clients give their number of examples.
        weight = dxo.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND)
        self._lost.pop(client, None)
        self._replies[client] = Reply(
            client=client,
            arrays=_arrays(dxo.data),
            examples=int(weight) if isinstance(weight, (int, float)) and weight >= 1 else None,
            differences=dxo.data_kind == DataKind.WEIGHT_DIFF,
        )

    def _on_new_model(self, context: FLContext) -> None:
        """The round's results were aggregated."""
        model = _global_model(context)
        if model is not None:
            self._finish(model)
            self._forget(None)

    def _on_error(self, context: FLContext) -> None:
        self._error = str(context.get_prop(FLContextKey.EVENT_DATA) or "an error that it did not explain")

    def _on_end(self, context: FLContext) -> None:
        reason = f"the job ended with an error: {self._error}"[:300] if self._error else ""
        if self._replies:
            self._finish(None)
            reason = reason or "the job ended before the server had a new model"
        self._the_recorder.close(reason)

    def _finish(self, after: Arrays | None) -> None:
        """Record the round that is under way, if there is one."""
        if self._round is None:
            return
        silent = self._asked - set(self._replies) - set(self._lost)
        lost = {**self._lost, **dict.fromkeys(silent, "no result before the round ended")}
        self._the_recorder.received(list(self._replies.values()), list(lost.items()), after)

    def _forget(self, number: object) -> None:
        self._round, self._sent, self._asked, self._replies, self._lost = number, {}, set(), {}, {}

    def _of_other_round(self, result: Shareable) -> bool:
        number = result.get_header(AppConstants.CURRENT_ROUND)
        return self._round is None or (number is not None and number != self._round)

    @property
    def _the_recorder(self) -> Recorder:
        assert self._recorder is not None
        return self._recorder


def _client(context: FLContext) -> str:
    peer = context.get_peer_context()
    name = peer.get_identity_name() if peer is not None else None
    if not name:
        raise TraceError("NVFlare does not say which client a message belongs to")
    return str(name)


def _global_model(context: FLContext) -> Arrays | None:
    model = context.get_prop(AppConstants.GLOBAL_MODEL)
    weights = model.get(ModelLearnableKey.WEIGHTS) if isinstance(model, dict) else None
    return _arrays(weights) if weights else None


def _arrays(weights: Mapping[str, Any]) -> Arrays:
    """Weights as numpy arrays, whatever the framework of the job keeps them in."""
    return {str(name): _array(value) for name, value in weights.items()}


def _array(value: Any) -> npt.NDArray[Any]:
    if callable(load := getattr(value, "materialize", None)):  # left on disk by NVFlare
        value = load()
    if callable(getattr(value, "detach", None)):  # a torch tensor; numpy knows no bfloat16
        value = value.detach().cpu()
        value = value.float().numpy() if value.dtype.itemsize == 2 else value.numpy()
    return np.asarray(value)


def _same(sent: Arrays, weights: Mapping[str, Any]) -> bool:
    """Whether this client is sent what the others were; usually these are the same objects."""
    return set(sent) == {str(name) for name in weights} and all(
        sent[str(name)] is value or np.array_equal(sent[str(name)], _array(value), equal_nan=True)
        for name, value in weights.items()
    )
