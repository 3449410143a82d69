# ruff: noqa: E402 - without Flower these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""Strategies that exchange messages, run for real in this process: what is recorded, and that nothing else changes."""

from __future__ import annotations

import gc
import resource
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
from flower_local import (
    NODES,
    LocalGrid,
    client_app,
    examples_of,
    fedavg,
    opened,
    run,
    state,
    step,
    update_of,
    who,
)
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    FedAvg,
)

from fedleak.record.flower import identify, record
from fedleak.record.key import read_key
from fedleak.trace.closed import Closed


def test_every_round_holds_each_clients_own_update_and_weight(tmp_path: Path) -> None:
    strategy = fedavg()
    assert record(strategy, tmp_path / "run") is strategy
    result = run(strategy, LocalGrid(client_app()), rounds=3)

    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert trace.rounds == 3 and trace.header.origin["framework"] == "flower"
    for number in (1, 2, 3):
        span = trace.span(number)
        partitions = [owner[trace.header.clients[index]] for index in trace.client[span]]
        assert sorted(partitions) == [0, 1, 2, 3]
        assert [int(size) for size in trace.size[span]] == [examples_of(partition) for partition in partitions]
        for row, partition in zip(range(span.start, span.stop), partitions, strict=True):
            for name, value in update_of(trace, row).items():
                np.testing.assert_allclose(value, step(partition, name, value), atol=1e-6)
    last = trace.snapshot(3)["fc1"]
    np.testing.assert_array_equal(last[:12], result.arrays["fc1.weight"].numpy().reshape(-1))
    closed = Closed.load(tmp_path / "run" / "trace")
    assert closed is not None and closed.reason == "" and closed.rounds == 3
    assert state(tmp_path / "run").state == "closed"


def test_recording_changes_nothing_of_the_result(tmp_path: Path) -> None:
    plain = run(fedavg(), LocalGrid(client_app()), rounds=2)
    recorded = run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app(mods=[identify])), rounds=2)
    for name in plain.arrays:
        # Replies are added up in the order of a random sample.
        np.testing.assert_allclose(plain.arrays[name].numpy(), recorded.arrays[name].numpy(), rtol=1e-5, atol=1e-6)
    assert plain.train_metrics_clientapp.keys() == recorded.train_metrics_clientapp.keys()
    assert plain.evaluate_metrics_clientapp == recorded.evaluate_metrics_clientapp


def test_nothing_in_the_trace_tells_who_is_who(tmp_path: Path) -> None:
    def crash(partition: int, message: Message) -> str:
        return "crash" if partition == 3 else ""

    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app(mods=[identify]), behave=crash))
    public = b"".join(path.read_bytes() for path in (tmp_path / "run" / "trace").iterdir())
    public += (tmp_path / "run" / "recorder.json").read_bytes()
    for node in NODES.values():
        assert str(node).encode() not in public
    assert b"user-03" not in public  # the client's own words
    for path in (tmp_path / "run").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_partition_reaches_the_key_and_not_the_strategy(tmp_path: Path) -> None:
    seen: list[set[str]] = []

    class Curious(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            seen.extend(set(reply.content) for reply in replies)
            return super().aggregate_train(server_round, replies)

    run(record(fedavg(Curious), tmp_path / "run"), LocalGrid(client_app(mods=[identify])))
    assert seen and all(keys == {"arrays", "metrics"} for keys in seen)
    owner = who(tmp_path / "run")
    assert {known.client: known.partition for known in read_key(tmp_path / "run" / "key")} == {
        client: str(partition) for client, partition in owner.items()
    }


def test_identify_leaves_evaluation_and_failures_alone() -> None:
    def reply_of(message: Message, context: Context) -> Message:
        del context
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    context = Context(run_id=1, node_id=2, node_config={"partition-id": 3}, state=RecordDict(), run_config={})
    asked = Message(RecordDict(), dst_node_id=2, message_type="evaluate")
    assert set(identify(asked, context, reply_of).content) == {"metrics"}
    asked = Message(RecordDict(), dst_node_id=2, message_type="train.fast")
    assert set(identify(asked, context, reply_of).content) == {"metrics", "fedleak.identify"}
    context.node_config.clear()
    assert set(identify(asked, context, reply_of).content) == {"metrics"}


def test_unidentified_runs_work_with_identify_alone() -> None:
    assert run(fedavg(), LocalGrid(client_app(mods=[identify]))).arrays


def test_failed_late_and_lost_clients_are_named_with_the_reason(tmp_path: Path) -> None:
    def behave(partition: int, message: Message) -> str:
        return {1: "unavailable", 2: "late", 3: "crash"}.get(partition, "")

    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app(), behave=behave), rounds=1)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert [owner[trace.header.clients[index]] for index in trace.client] == [0]
    why = {owner[dropped.client]: dropped.why for dropped in trace.dropped()}
    # An unavailable node is answered for by the SuperLink, under the SuperLink's own id.
    assert why == {
        1: "the node is unavailable",
        2: "no reply in time",
        3: "its ClientApp raised an exception",
    }


def test_rounds_without_replies_are_rounds(tmp_path: Path) -> None:
    silent = LocalGrid(client_app(), behave=lambda partition, message: "late")
    result = run(record(fedavg(), tmp_path / "run"), silent, rounds=2)
    trace = opened(tmp_path / "run")
    assert result.arrays is None or len(result.arrays) == 0
    assert trace.rounds == 2 and len(trace.client) == 0 and len(list(trace.dropped())) == 8
    np.testing.assert_array_equal(trace.snapshot(2)["fc1"], trace.snapshot(0)["fc1"])


def test_evaluation_is_not_recorded(tmp_path: Path) -> None:
    grid = LocalGrid(client_app())
    result = run(record(fedavg(), tmp_path / "run"), grid, rounds=2)
    assert grid.exchanged.count("evaluate") == 8 and len(result.evaluate_metrics_clientapp) == 2
    assert len(opened(tmp_path / "run").client) == 8


def test_strategies_that_train_nobody(tmp_path: Path) -> None:
    run(record(fedavg(fraction_train=0.0), tmp_path / "run"), LocalGrid(client_app()), rounds=2)
    assert opened(tmp_path / "run").rounds == 2


def test_two_recorders_on_one_strategy_both_record(tmp_path: Path) -> None:
    strategy = record(record(fedavg(), tmp_path / "one"), tmp_path / "two", sums=True)
    run(strategy, LocalGrid(client_app(mods=[identify])))
    assert opened(tmp_path / "one").header.holds_updates and not opened(tmp_path / "two").header.holds_updates
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert opened(folder).rounds == 2 and state(folder).state == "closed"
        assert {known.partition for known in read_key(folder / "key")} == {"0", "1", "2", "3"}


def test_two_recorders_in_one_folder_one_gives_way(tmp_path: Path) -> None:
    strategy = record(record(fedavg(), tmp_path / "run"), tmp_path / "run")
    with pytest.warns(UserWarning, match="in use by another run"):
        assert run(strategy, LocalGrid(client_app())).arrays
    assert opened(tmp_path / "run").rounds == 2


def test_a_strategy_that_cannot_be_changed_is_returned_as_it_is(tmp_path: Path) -> None:
    class Rigid(FedAvg):
        def __setattr__(self, name: str, value: Any) -> None:
            if name in ("start", "configure_train", "aggregate_train"):
                raise AttributeError(f"{name} is read-only")
            super().__setattr__(name, value)

    strategy = fedavg(Rigid)
    with pytest.warns(UserWarning, match="methods of Rigid cannot be replaced"):
        assert record(strategy, tmp_path / "run") is strategy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(strategy, LocalGrid(client_app())).arrays
    assert not (tmp_path / "run").exists()


def test_something_that_is_no_strategy_is_returned_with_a_warning(tmp_path: Path) -> None:
    nothing = object()
    with pytest.warns(UserWarning, match="is no Flower strategy"):
        assert record(nothing, tmp_path / "run") is nothing


def test_a_second_start_appends_under_the_same_pseudonyms(tmp_path: Path) -> None:
    strategy = record(fedavg(), tmp_path / "run")
    first = run(strategy, LocalGrid(client_app()), rounds=2)
    strategy.start(grid=LocalGrid(client_app()), initial_arrays=first.arrays, num_rounds=1)
    # A server that is started anew begins with its first model again.
    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app()), rounds=1)
    trace = opened(tmp_path / "run")
    assert trace.rounds == 5 and len(trace.header.clients) == 4
    assert [trace.span(number).stop - trace.span(number).start for number in range(1, 6)] == [4, 4, 4, 0, 4]
    assert state(tmp_path / "run").state == "closed"


def test_replies_are_not_kept_after_the_round(tmp_path: Path) -> None:
    import weakref

    kept: list[Any] = []

    class Watching(FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            kept.extend(weakref.ref(reply) for reply in replies)
            return super().aggregate_train(server_round, replies)

        def configure_evaluate(self, *args: Any, **kwargs: Any) -> Any:
            gc.collect()
            # `start` itself holds the messages of the round that has just ended.
            alive.append(sum(ref() is not None for ref in kept[:-4]))
            return super().configure_evaluate(*args, **kwargs)

    alive: list[int] = []
    run(record(fedavg(Watching), tmp_path / "run"), LocalGrid(client_app()), rounds=3)
    assert alive == [0, 0, 0]


def test_parameters_of_the_recorder(tmp_path: Path) -> None:
    strategy = record(fedavg(), tmp_path / "run", dtype="float16", every=2, layers=["fc2"])
    run(strategy, LocalGrid(client_app()), rounds=4)
    trace = opened(tmp_path / "run")
    assert trace.header.dtype == "float16" and trace.header.every == 2 and trace.header.unrecorded == ("fc1",)
    assert trace.rounds == 4 and len(trace.client) == 8
    assert not trace.updates("fc1").any() and trace.updates("fc2").any()


def test_a_full_disk_stops_the_recorder_only_and_a_second_start_appends(tmp_path: Path) -> None:
    strategy, limits = record(fedavg(), tmp_path / "run"), resource.getrlimit(resource.RLIMIT_FSIZE)
    # Updates of fc1 take 240 bytes a round: the seventh does not fit.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, limits[1]))
    try:
        with pytest.warns(UserWarning, match="Fedleak stopped recording") as caught:
            result = run(strategy, LocalGrid(client_app()), rounds=12)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len([one for one in caught if "Fedleak" in str(one.message)]) == 1
    assert len(result.train_metrics_clientapp) == 12  # every round of the user's training
    kept = opened(tmp_path / "run").rounds
    assert kept == 6
    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app()), rounds=1)
    trace = opened(tmp_path / "run")
    assert trace.rounds == kept + 2 and state(tmp_path / "run").state == "closed"


def test_a_restarted_node_is_a_new_client_of_the_same_partition(tmp_path: Path) -> None:
    grid = LocalGrid(client_app(mods=[identify]))
    strategy = record(fedavg(), tmp_path / "run")
    first = run(strategy, grid, rounds=1)
    moved = grid.nodes.pop(NODES[3])
    moved.node_id = NODES[7]
    grid.nodes[NODES[7]] = moved
    strategy.start(grid=grid, initial_arrays=first.arrays, num_rounds=1)
    known = [one for one in read_key(tmp_path / "run" / "key") if one.partition == "3"]
    assert {one.node for one in known} == {str(NODES[3]), str(NODES[7])} and len({one.client for one in known}) == 2
    assert len(opened(tmp_path / "run").header.clients) == 5
