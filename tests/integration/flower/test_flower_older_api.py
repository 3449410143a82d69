# ruff: noqa: E402 - without Flower these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""The older Strategy API with NumPyClients, also under SecAgg+, run by Flower's own workflows in this process."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
import flwr.clientapp.mod
import flwr.serverapp.strategy
from flower_local import LocalGrid, examples_of, opened, step, who
from flwr.app import Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.compat.client.numpy_client import NumPyClient
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAdam, FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

from fedleak.record.flower import identify, record
from fedleak.record.key import read_key
from fedleak.record.state import RecorderState
from fedleak.trace.closed import Closed

START = [np.zeros((3, 4), np.float32), np.ones(3, np.float32)]


class Stepping(NumPyClient):
    """Adds a known step to every array."""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    def fit(self, parameters: list[Any], config: Any) -> Any:
        moved = [value + step(self.partition, f"array-{n:03}", value) for n, value in enumerate(parameters)]
        return moved, examples_of(self.partition), {"loss": 0.5}

    def evaluate(self, parameters: list[Any], config: Any) -> Any:
        return 0.5, 5, {"accuracy": 0.9}


def app(*mods: Any) -> ClientApp:
    def make(context: Context) -> Any:
        return Stepping(int(context.node_config["partition-id"])).to_client()

    return ClientApp(client_fn=make, mods=list(mods))


def fedavg(kind: Any = FedAvg, **settings: Any) -> Any:
    return kind(initial_parameters=ndarrays_to_parameters(START), min_available_clients=4, **settings)


def run(strategy: Any, grid: LocalGrid, rounds: int = 2, fit: Any = None) -> Any:
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    legacy = LegacyContext(context, config=ServerConfig(num_rounds=rounds), strategy=strategy)
    DefaultWorkflow(fit_workflow=fit)(grid, legacy)
    return legacy.history, legacy.state.array_records["parameters"]


def test_numpy_clients_are_recorded_with_their_partitions(tmp_path: Path) -> None:
    metrics: list[set[str]] = []

    def aggregate(results: Any) -> dict[str, float]:
        metrics.extend(set(one) for _, one in results)
        return {"loss": 0.5}

    strategy = record(fedavg(fit_metrics_aggregation_fn=aggregate), tmp_path / "run")
    _, final = run(strategy, LocalGrid(app(identify)), rounds=2)
    assert metrics and all(one == {"loss"} for one in metrics)  # the partition was taken out before
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert trace.rounds == 2 and [layer.name for layer in trace.header.layout] == ["array-000", "array-001"]
    for row, index in enumerate(trace.client):
        partition = owner[trace.header.clients[int(index)]]
        value = trace.updates("array-000")[row].reshape(3, 4)
        np.testing.assert_allclose(value, step(partition, "array-000", value), atol=1e-6)
        assert trace.size[row] == examples_of(partition)
    np.testing.assert_array_equal(trace.snapshot(2)["array-001"], list(final.values())[1].numpy())
    assert {known.client: known.partition for known in read_key(tmp_path / "run" / "key")} == {
        client: str(partition) for client, partition in owner.items()
    }


def test_the_trace_is_closed_when_the_strategy_is_gone(tmp_path: Path) -> None:
    strategy = record(fedavg(), tmp_path / "run")
    run(strategy, LocalGrid(app()))
    assert Closed.load(tmp_path / "run" / "trace") is None  # the strategy is not told that this was the last round
    assert opened(tmp_path / "run").rounds == 2
    del strategy
    gc.collect()
    closed = Closed.load(tmp_path / "run" / "trace")
    assert closed is not None and closed.reason == "" and RecorderState.load(tmp_path / "run").state == "closed"


def test_the_move_of_a_server_optimiser_is_not_the_mean(tmp_path: Path) -> None:
    run(record(fedavg(FedAdam), tmp_path / "run"), LocalGrid(app()), rounds=1)
    trace = opened(tmp_path / "run")
    move = trace.snapshot(1)["array-000"] - trace.snapshot(0)["array-000"]
    assert np.abs(move - trace.aggregate(1)["array-000"]).max() > 1e-3


def test_failures_and_silence_are_told_apart_from_updates(tmp_path: Path) -> None:
    def behave(partition: int, message: Message) -> str:
        return {1: "unavailable", 3: "crash"}.get(partition, "") if message.metadata.message_type == "train" else ""

    run(record(fedavg(), tmp_path / "run"), LocalGrid(app(), behave=behave), rounds=1)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert sorted(owner[trace.header.clients[int(index)]] for index in trace.client) == [0, 2]
    dropped = {owner[one.client]: one.why for one in trace.dropped()}
    # Flower does not say which of the two was which.
    either = "its ClientApp raised an exception or: the node is unavailable"
    assert dropped == {1: either, 3: either}


def test_server_side_clipping_outside_and_inside(tmp_path: Path) -> None:
    inner = record(fedavg(), tmp_path / "inner")
    strategy = record(DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 0.05, 4), tmp_path / "outer")
    run(strategy, LocalGrid(app(identify)))
    norms = {}
    for folder in ("inner", "outer"):
        trace = opened(tmp_path / folder)
        rows = np.hstack([trace.updates("array-000"), trace.updates("array-001")])
        norms[folder] = float(np.linalg.norm(rows, axis=1).max())
    assert norms["inner"] == pytest.approx(0.05, rel=1e-3) and norms["outer"] > 0.1
    for folder in ("inner", "outer"):
        assert {known.partition for known in read_key(tmp_path / folder / "key")} == {"0", "1", "2", "3"}


def secure_aggregation() -> SecAggPlusWorkflow:
    return SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2, max_weight=200, timeout=30)


@pytest.mark.parametrize("order", ["outside", "inside"])
def test_under_secure_aggregation_only_sums_are_recorded(tmp_path: Path, order: str) -> None:
    mods = (identify, secaggplus_mod) if order == "outside" else (secaggplus_mod, identify)
    history, _ = run(record(fedavg(), tmp_path / "run"), LocalGrid(app(*mods)), fit=secure_aggregation())
    assert len(history.losses_distributed) == 2
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert trace.rounds == 2 and not trace.header.holds_updates and RecorderState.load(tmp_path / "run").sums
    assert not list((tmp_path / "run" / "trace").glob("update-*"))
    sizes = [int(size) for size in trace.size[trace.span(1)]]
    partitions = [owner[trace.header.clients[int(index)]] for index in trace.client[trace.span(1)]]
    assert sizes == [examples_of(partition) for partition in partitions]  # in the clear
    mean = np.average([step(p, "array-000", START[0]) for p in partitions], axis=0, weights=sizes)
    np.testing.assert_allclose(trace.aggregate(1)["array-000"], mean.reshape(-1), atol=1e-4)
    assert {known.partition for known in read_key(tmp_path / "run" / "key")} == {"0", "1", "2", "3"}


def test_flower_has_secure_aggregation_for_older_strategies_only() -> None:
    """As the documentation says; a version of Flower that offers more must be recorded, too."""
    offered = [*flwr.serverapp.strategy.__all__, *flwr.clientapp.mod.__all__]
    assert not [name for name in offered if "sec" in name.lower()]
    context = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(TypeError, match="LegacyContext"):
        secure_aggregation()(LocalGrid(app()), context)


def test_a_round_that_secure_aggregation_halts_is_a_round_without_updates(tmp_path: Path) -> None:
    def behave(partition: int, message: Message) -> str:
        # All but one fall silent in the second round.
        return "unavailable" if message.metadata.group_id == "2" and partition and message_trains(message) else ""

    def message_trains(message: Message) -> bool:
        return message.metadata.message_type == "train"

    strategy = record(fedavg(), tmp_path / "run")
    run(strategy, LocalGrid(app(secaggplus_mod), behave=behave), rounds=3, fit=secure_aggregation())
    trace = opened(tmp_path / "run")
    assert trace.rounds == 3 and [trace.span(n).stop - trace.span(n).start for n in (1, 2, 3)] == [4, 0, 4]
    assert {one.why for one in trace.dropped()} == {"the round was halted before aggregation"}


def test_an_error_of_the_strategy_ends_the_trace_with_the_reason(tmp_path: Path) -> None:
    class Broken(FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            if server_round == 2:
                raise RuntimeError("user-03 is odd")
            return super().aggregate_fit(server_round, results, failures)

    strategy = record(fedavg(Broken), tmp_path / "run")
    with pytest.raises(RuntimeError, match="user-03"):
        run(strategy, LocalGrid(app()), rounds=3)
    closed = Closed.load(tmp_path / "run" / "trace")
    assert closed is not None and closed.rounds == 2 and closed.reason == "the run ended with RuntimeError"


def test_recording_changes_nothing_of_the_result(tmp_path: Path) -> None:
    plain, _ = run(fedavg(), LocalGrid(app()))
    recorded, final = run(record(fedavg(), tmp_path / "run"), LocalGrid(app(identify)))
    assert plain.losses_distributed == recorded.losses_distributed
    expected = np.average([step(p, "array-001", START[1]) for p in range(4)], axis=0, weights=[10, 20, 30, 40])
    np.testing.assert_allclose(list(final.values())[1].numpy(), START[1] + 2 * expected, atol=1e-5)
