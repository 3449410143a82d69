"""Events that a simulated job rarely shows, fired with NVFlare's own objects: recorded, or said to be missing."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from framework_runs import assert_closed, lost_by_name, updates_by_name
from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, ReservedKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from fedleak.record.nvflare import FedleakRecorder
from fedleak.record.state import RecorderState
from fedleak.trace.reader import Trace

START = {"fc.weight": np.zeros((2, 3), np.float32), "fc.bias": np.ones(2, np.float32)}


def shifted(by: float) -> dict[str, Any]:
    return {name: values + np.float32(by) for name, values in START.items()}


class Server:
    """Fires the events of a workflow at a recorder, in NVFlare's order."""

    def __init__(self, run: Path, **options: Any) -> None:
        self.recorder = FedleakRecorder(str(run), **options)
        self.fire(EventType.START_RUN)

    def fire(self, event: str, client: str = "", **props: Any) -> None:
        context = FLContext()
        context.set_prop(ReservedKey.RUN_NUM, "job-1", private=False, sticky=True)
        if client:
            peer = FLContext()
            peer.set_prop(ReservedKey.IDENTITY_NAME, client, private=False, sticky=False)
            context.set_peer_context(peer)
        for name, value in props.items():
            context.set_prop(name, value, private=True, sticky=False)
        self.recorder.handle_event(event, context)

    def send(self, client: str, number: int, weights: dict[str, Any]) -> None:
        task = DXO(DataKind.WEIGHTS, data=weights).to_shareable()
        task.set_header(AppConstants.CURRENT_ROUND, number)
        props = {FLContextKey.TASK_NAME: "train", FLContextKey.TASK_DATA: task}
        self.fire(EventType.BEFORE_TASK_DATA_FILTER, client, **props)

    def receive(
        self,
        client: str,
        number: int,
        weights: Any,
        *,
        kind: str = DataKind.WEIGHTS,
        accepted: bool = True,
        meta: Any = None,
    ) -> None:
        result: Shareable = DXO(kind, data=weights, meta=meta or {}).to_shareable()
        result.set_header(AppConstants.CURRENT_ROUND, number)
        props = {AppConstants.TRAINING_RESULT: result, AppConstants.AGGREGATION_ACCEPTED: accepted}
        self.fire(AppEventType.AFTER_CONTRIBUTION_ACCEPT, client, **props)

    def update(self, weights: dict[str, Any]) -> None:
        model = make_model_learnable(weights, {})
        self.fire(AppEventType.AFTER_SHAREABLE_TO_LEARNABLE, **{AppConstants.GLOBAL_MODEL: model})


def test_late_rejected_and_missing_results_are_told_apart(tmp_path: Path) -> None:
    server = Server(tmp_path / "run")
    for client in ("a", "b", "c"):
        server.send(client, 0, START)
    server.receive("a", 0, shifted(1))
    server.receive("b", 0, shifted(2), accepted=False)
    server.update(shifted(1))
    for client in ("a", "c"):
        server.send(client, 1, shifted(1))
    server.receive("c", 0, shifted(9))  # of the round before: too late
    server.receive("a", 1, shifted(3))
    server.receive("c", 1, shifted(4))
    server.update(shifted(2))
    server.fire(EventType.END_RUN)
    assert {client: update["fc"][0] for client, update in updates_by_name(tmp_path / "run", 2).items()} == {
        "a": 2,
        "c": 3,
    }
    assert sorted(lost_by_name(tmp_path / "run")) == [
        (1, "b", "its result was not accepted"),
        (1, "c", "no result before the round ended"),
    ]
    assert_closed(tmp_path / "run", 2)


def test_a_controller_that_never_announces_its_model_is_recorded_by_what_it_sends_next(tmp_path: Path) -> None:
    server = Server(tmp_path / "run")
    for number in range(3):
        server.send("a", number, shifted(number))
        server.receive("a", number, shifted(number + 0.5))
    server.fire(EventType.END_RUN)
    trace = Trace.open(tmp_path / "run" / "trace")
    assert [float(trace.snapshot(number)["fc"][0]) for number in range(4)] == [0, 1, 2, 2]
    assert_closed(tmp_path / "run", 3, "the job ended before the server had a new model")


def test_tensors_of_torch_and_differences_in_half_precision_are_read(tmp_path: Path) -> None:
    server = Server(tmp_path / "run")
    tensors = {name: torch.from_numpy(values) for name, values in START.items()}
    for client in ("a", "b"):
        server.send(client, 0, tensors)
    half = {name: torch.full(value.shape, 0.5, dtype=torch.bfloat16) for name, value in tensors.items()}
    server.receive("a", 0, half, kind=DataKind.WEIGHT_DIFF, meta={MetaKey.NUM_STEPS_CURRENT_ROUND: 7})
    server.receive(
        "b", 0, {name: value + 1 for name, value in tensors.items()}, meta={MetaKey.NUM_STEPS_CURRENT_ROUND: 7}
    )
    server.update(tensors)
    found = updates_by_name(tmp_path / "run", 1)
    np.testing.assert_array_equal(found["a"]["fc"], np.full(8, 0.5))
    np.testing.assert_array_equal(found["b"]["fc"], np.ones(8))


@pytest.mark.parametrize("trouble", ["encrypted", "other model", "no weights", "nobody", "no shareable"])
def test_what_cannot_be_recorded_ends_the_recording_with_one_warning(tmp_path: Path, trouble: str) -> None:
    server = Server(tmp_path / "run")
    server.send("a", 0, START)
    server.receive("a", 0, shifted(1))
    server.update(shifted(1))
    server.send("a", 1, shifted(1))
    with pytest.warns(UserWarning, match="Fedleak stopped recording") as caught:
        if trouble == "encrypted":
            server.receive("a", 1, {"fc.weight": b"..."}, meta={MetaKey.PROCESSED_ALGORITHM: "_HE_"})
        elif trouble == "other model":
            server.send("b", 1, shifted(2))
        elif trouble == "no weights":
            server.fire(
                EventType.BEFORE_TASK_DATA_FILTER,
                "a",
                **{
                    FLContextKey.TASK_NAME: "train",
                    FLContextKey.TASK_DATA: DXO(DataKind.METRICS, data={"loss": 1.0}).to_shareable(),
                },
            )
        elif trouble == "nobody":
            server.receive("", 1, shifted(2))
        else:
            server.fire(EventType.BEFORE_TASK_DATA_FILTER, "a", **{FLContextKey.TASK_NAME: "train"})
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        server.receive("a", 1, shifted(5))
        server.update(shifted(5))
        server.fire(EventType.END_RUN)
    state = RecorderState.load(tmp_path / "run")
    assert (state.state, state.rounds) == ("partial", 1) and state.reason


def test_other_tasks_and_jobs_without_training_leave_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "run")
    props = {
        FLContextKey.TASK_NAME: "validate",
        FLContextKey.TASK_DATA: DXO(DataKind.WEIGHTS, data=START).to_shareable(),
    }
    server.fire(EventType.BEFORE_TASK_DATA_FILTER, "a", **props)
    server.fire(EventType.END_RUN)
    assert not (tmp_path / "run").exists()


def test_an_error_of_the_job_is_the_reason_why_the_recording_ended(tmp_path: Path) -> None:
    server = Server(tmp_path / "run")
    server.send("a", 0, START)
    server.receive("a", 0, shifted(1))
    server.update(shifted(1))
    server.fire(EventType.FATAL_SYSTEM_ERROR, **{FLContextKey.EVENT_DATA: "too few clients"})
    server.fire(EventType.END_RUN)
    assert_closed(tmp_path / "run", 1, "the job ended with an error: too few clients")
