"""Strategies that exchange messages, run for real in this process: what is recorded, and that nothing else changes."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
from flower_local import (
    NODES,
    LocalGrid,
    arrays_of,
    client_app,
    examples_of,
    model,
    reply_with,
    step,
    train_reply,
)
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedMedian,
    FedXgbBagging,
)

from fedleak.record.flower import identify, record
from fedleak.record.key import read_key
from fedleak.record.state import RecorderState
from fedleak.trace.closed import Closed
from fedleak.trace.reader import Trace


def fedavg(kind: Any = FedAvg, **settings: Any) -> Any:
    return kind(**{"min_available_nodes": 1, "min_train_nodes": 1, "min_evaluate_nodes": 1, **settings})


def opened(folder: Path) -> Trace:
    trace = Trace.open(folder / "trace")
    trace.verify()
    return trace


def who(folder: Path) -> dict[str, int]:
    """The partition of each client, by pseudonym, from the node ids."""
    by_node = {str(node): partition for partition, node in NODES.items()}
    return {known.client: by_node[known.node] for known in read_key(folder / "key")}


def update_of(trace: Trace, row: int) -> dict[str, Any]:
    """One recorded update as the arrays that it was made from."""
    found = {}
    for layer in trace.header.layout:
        flat = trace.updates(layer.name)[row]
        for tensor, shape in layer.tensors:
            found[f"{layer.name}.{tensor}"] = flat[layer.span(tensor)].reshape(shape)
    return found


def run(strategy: Any, grid: LocalGrid, rounds: int = 2, initial: dict[str, Any] | None = None) -> Any:
    return strategy.start(grid=grid, initial_arrays=arrays_of(initial or model()), num_rounds=rounds)


def state(folder: Path) -> RecorderState:
    return RecorderState.load(folder)


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


@pytest.mark.parametrize("kind", [FedAdam, FedMedian])
def test_mean_and_real_move_are_both_recorded(tmp_path: Path, kind: Any) -> None:
    run(record(fedavg(kind), tmp_path / "run"), LocalGrid(client_app()), rounds=2)
    trace = opened(tmp_path / "run")
    assert trace.rounds == 2
    updates = trace.updates("fc1")[trace.span(1)]
    sizes = trace.size[trace.span(1)].astype(np.float64)
    mean = np.average(updates.astype(np.float64), axis=0, weights=sizes)
    np.testing.assert_allclose(trace.aggregate(1)["fc1"], mean, atol=1e-6)
    move = trace.snapshot(1)["fc1"] - trace.snapshot(0)["fc1"]
    assert np.abs(move - mean).max() > 1e-3
    if kind is FedMedian:
        np.testing.assert_allclose(move, np.median(updates, axis=0), atol=1e-6)


def clipped(folder: Path) -> list[float]:
    trace = opened(folder)
    norms = [np.concatenate([v.reshape(-1) for v in update_of(trace, row).values()]) for row in range(len(trace.client))]
    return [float(np.linalg.norm(values)) for values in norms]


def test_outside_of_server_side_clipping_raw_updates_are_recorded(tmp_path: Path) -> None:
    private = DifferentialPrivacyServerSideFixedClipping(fedavg(), 0.1, 0.05, 4)
    run(record(private, tmp_path / "run"), LocalGrid(client_app()))
    trace = opened(tmp_path / "run")
    assert trace.rounds == 2 and min(clipped(tmp_path / "run")) > 0.1
    assert trace.header.origin["strategy"] == "DifferentialPrivacyServerSideFixedClipping > FedAvg"
    # The model moved by the clipped and noised mean, not by the mean of what was recorded.
    move = trace.snapshot(1)["fc1"] - trace.snapshot(0)["fc1"]
    assert np.abs(move - trace.aggregate(1)["fc1"]).max() > 1e-3


def test_inside_of_server_side_clipping_clipped_updates_are_recorded(tmp_path: Path) -> None:
    inner = record(fedavg(), tmp_path / "inner")
    private = DifferentialPrivacyServerSideFixedClipping(inner, 0.1, 0.05, 4)
    run(record(private, tmp_path / "outer"), LocalGrid(client_app(mods=[identify])))
    del private, inner
    gc.collect()  # the inner strategy is never told that the run is over
    norms = clipped(tmp_path / "inner")
    assert len(norms) == 8 and max(norms) == pytest.approx(0.05, rel=1e-4)
    for folder in (tmp_path / "inner", tmp_path / "outer"):
        assert {known.partition for known in read_key(folder / "key")} == {"0", "1", "2", "3"}
        assert state(folder).state == "closed"
    # The noise is added outside: it shows as a round without clients.
    trace = opened(tmp_path / "inner")
    assert trace.rounds == 3 and trace.span(2).start == trace.span(2).stop


def test_client_side_fixed_clipping(tmp_path: Path) -> None:
    private = DifferentialPrivacyClientSideFixedClipping(fedavg(), 0.1, 0.05, 4)
    run(record(private, tmp_path / "run"), LocalGrid(client_app(mods=[identify, fixedclipping_mod])))
    norms = clipped(tmp_path / "run")
    assert len(norms) == 8 and max(norms) == pytest.approx(0.05, rel=1e-3)
    assert {known.partition for known in read_key(tmp_path / "run" / "key")} == {"0", "1", "2", "3"}


def test_client_side_adaptive_clipping(tmp_path: Path) -> None:
    private = DifferentialPrivacyClientSideAdaptiveClipping(fedavg(), 0.05, 4, initial_clipping_norm=0.05)
    run(record(private, tmp_path / "run"), LocalGrid(client_app(mods=[adaptiveclipping_mod, identify])))
    assert opened(tmp_path / "run").rounds == 2
    assert max(clipped(tmp_path / "run")[:4]) == pytest.approx(0.05, rel=1e-3)


def test_local_noise_is_part_of_the_update(tmp_path: Path) -> None:
    # The mod runs on evaluation, too, and fails there; the strategy is told not to evaluate.
    noise = LocalDpMod(clipping_norm=0.01, sensitivity=0.01, epsilon=1.0, delta=1e-5)
    run(record(fedavg(fraction_evaluate=0.0), tmp_path / "run"), LocalGrid(client_app(mods=[noise, identify])))
    updates = opened(tmp_path / "run").updates("fc1")
    # 0.01 * sqrt(2 ln 125000): the noise is five times the clipped step.
    assert len(updates) == 8 and 0.03 < float(np.std(updates)) < 0.07


def test_running_means_are_marked_as_buffers_and_counters_left_out(tmp_path: Path) -> None:
    initial = model() | {
        "bn.weight": np.ones(3, np.float32),
        "bn.running_mean": np.zeros(3, np.float32),
        "bn.num_batches_tracked": np.asarray(0, np.int64),
    }
    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app()), initial=initial)
    trace = opened(tmp_path / "run")
    assert trace.rounds == 2 and trace.header.buffers == ("bn:buffers",)
    assert list(state(tmp_path / "run").left_out) == ["bn.num_batches_tracked"]


def test_half_precision_models_are_recorded(tmp_path: Path) -> None:
    initial = {name: value.astype(np.float16) for name, value in model().items()}
    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app()), initial=initial)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    value = update_of(trace, 0)["fc1.bias"]
    partition = owner[trace.header.clients[int(trace.client[0])]]
    np.testing.assert_allclose(value, step(partition, "fc1.bias", value.astype(np.float16)), atol=1e-3)


def bfloat16(value: Any) -> Array:
    """An array as a client sends it that has bfloat16 in numpy: two bytes without a type."""
    upper = (value.astype("<f4").view("<u4") >> 16).astype("<u2")
    raw = Array(upper.view("V2"))
    return Array("bfloat16", tuple(value.shape), "numpy.ndarray", raw.data)


def test_bfloat16_is_read(tmp_path: Path) -> None:
    start = {"fc.weight": np.full((2, 3), 2.0, np.float32)}

    class Mean(FedAvg):
        """FedAvg itself cannot add up bfloat16."""

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            return ArrayRecord({"fc.weight": bfloat16(np.full((2, 3), 3.0, np.float32))}), MetricRecord()

    def train(message: Message, context: Context) -> Message:
        value = 2.0 + 2.0 ** -int(context.node_config["partition-id"])
        content = RecordDict(
            {
                "arrays": ArrayRecord({"fc.weight": bfloat16(np.full((2, 3), value, np.float32))}),
                "metrics": MetricRecord({"num-examples": 1}),
            }
        )
        return Message(content, reply_to=message)

    strategy = record(fedavg(Mean), tmp_path / "run")
    initial = ArrayRecord({name: bfloat16(value) for name, value in start.items()})
    strategy.start(grid=LocalGrid(client_app(train)), initial_arrays=initial, num_rounds=1)
    trace = opened(tmp_path / "run")
    assert sorted(float(value) for value in trace.updates("fc")[:, 0]) == [0.125, 0.25, 0.5, 1.0]
    np.testing.assert_array_equal(trace.snapshot(1)["fc"], np.full(6, 3.0))


def test_quantised_arrays_are_left_out_with_the_reason(tmp_path: Path) -> None:
    initial = model() | {"scale.weight": np.arange(6, dtype=np.int8)}
    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app()), initial=initial)
    assert opened(tmp_path / "run").rounds == 2
    assert "int8" in state(tmp_path / "run").left_out["scale.weight"]


def test_a_model_without_weights_is_warned_of_once_and_training_goes_on(tmp_path: Path) -> None:
    strategy = record(fedavg(), tmp_path / "run")
    with pytest.warns(UserWarning, match="Fedleak stopped recording: .*holds no weights") as caught:
        result = run(strategy, LocalGrid(client_app()), initial={"q.weight": np.arange(6, dtype=np.int8)})
    assert len([one for one in caught if "Fedleak" in str(one.message)]) == 1 and result.arrays


def partial(names: set[str]) -> Callable[[Message, Context], Message]:
    def train(message: Message, context: Context) -> Message:
        full = train_reply(message, context)
        arrays = {name: array.numpy() for name, array in full.content["arrays"].items() if name in names}
        return reply_with(message, arrays, 10)

    return train


def test_clients_may_send_some_arrays_only(tmp_path: Path) -> None:
    initial = model() | {"base.lora_A.default.weight": np.ones((2, 3), np.float32)}
    app = client_app(partial({"base.lora_A.default.weight", "fc2.weight"}))
    result = run(record(fedavg(), tmp_path / "run"), LocalGrid(app), rounds=3, initial=initial)
    assert set(result.arrays) == {"base.lora_A.default.weight", "fc2.weight"}  # FedAvg keeps no others
    trace = opened(tmp_path / "run")
    assert trace.rounds == 3
    assert not trace.updates("fc1").any() and trace.updates("base.lora_A.default").all()
    np.testing.assert_array_equal(trace.snapshot(3)["fc1"][:12], initial["fc1.weight"].reshape(-1))
    np.testing.assert_array_equal(trace.snapshot(3)["fc2"], result.arrays["fc2.weight"].numpy().reshape(-1))


def test_clients_that_disagree_end_the_run_as_before_and_the_round_is_kept(tmp_path: Path) -> None:
    def train(message: Message, context: Context) -> Message:
        names = {"fc1.weight"} if context.node_config["partition-id"] == 0 else {"fc2.weight"}
        return partial(names)(message, context)

    from flwr.serverapp.exception import InconsistentMessageReplies

    strategy = record(fedavg(), tmp_path / "run")
    with pytest.raises(InconsistentMessageReplies):
        run(strategy, LocalGrid(client_app(train)))
    trace = opened(tmp_path / "run")
    assert trace.rounds == 1 and len(trace.client) == 4
    closed = Closed.load(tmp_path / "run" / "trace")
    assert closed is not None and "InconsistentMessageReplies" in closed.reason
    assert state(tmp_path / "run").state == "partial"


def test_updates_that_are_not_finite_are_dropped_with_the_reason(tmp_path: Path) -> None:
    def train(message: Message, context: Context) -> Message:
        reply = train_reply(message, context)
        if context.node_config["partition-id"] == 2:
            spoilt = reply.content["arrays"]["fc1.weight"].numpy()
            spoilt[0, 0] = np.nan
            reply.content["arrays"]["fc1.weight"] = Array(spoilt)
        return reply

    run(record(fedavg(), tmp_path / "run"), LocalGrid(client_app(train)), rounds=1)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert len(trace.client) == 3 and np.isnan(trace.snapshot(1)["fc1"][0])
    (dropped,) = trace.dropped()
    assert owner[dropped.client] == 2 and "finite" in dropped.why


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


def test_what_is_sent_counts_not_what_the_strategy_was_given(tmp_path: Path) -> None:
    class Halved(FedAvg):
        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
            halved = ArrayRecord({name: Array(array.numpy() / 2) for name, array in arrays.items()})
            yield from super().configure_train(server_round, halved, config, grid)

    run(record(fedavg(Halved), tmp_path / "run"), LocalGrid(client_app()), rounds=1)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    value = update_of(trace, 0)["fc1.weight"]
    partition = owner[trace.header.clients[int(trace.client[0])]]
    np.testing.assert_allclose(value, step(partition, "fc1.weight", value), atol=1e-6)
    np.testing.assert_allclose(trace.snapshot(0)["fc1"][:12], model()["fc1.weight"].reshape(-1) / 2)


def test_clients_may_be_sent_models_of_their_own(tmp_path: Path) -> None:
    class Personal(FedAvg):
        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
            for place, message in enumerate(super().configure_train(server_round, arrays, config, grid)):
                own = ArrayRecord({name: Array(array.numpy() + np.float32(place)) for name, array in arrays.items()})
                content = RecordDict({"arrays": own, "config": ConfigRecord()})
                yield Message(content, message.metadata.dst_node_id, "train")

    run(record(fedavg(Personal), tmp_path / "run"), LocalGrid(client_app()), rounds=2)
    trace, owner = opened(tmp_path / "run"), who(tmp_path / "run")
    assert trace.rounds == 2
    for row in range(8):
        value = update_of(trace, row)["fc1.weight"]
        partition = owner[trace.header.clients[int(trace.client[row])]]
        np.testing.assert_allclose(value, step(partition, "fc1.weight", value), atol=1e-5)


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


def test_trees_instead_of_arrays_stop_the_recorder_only(tmp_path: Path) -> None:
    trees = json.dumps({"learner": {}}).encode()
    seen = []

    class Boosted(FedXgbBagging):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            seen.append(len(list(replies)))
            return ArrayRecord([np.frombuffer(trees, np.uint8)]), MetricRecord()

    def train(message: Message, context: Context) -> Message:
        return reply_with(message, {"0": np.frombuffer(trees, np.uint8)}, 1)

    strategy = record(fedavg(Boosted), tmp_path / "run")
    with pytest.warns(UserWarning, match="holds no weights"):
        strategy.start(grid=LocalGrid(client_app(train)), initial_arrays=ArrayRecord([np.zeros(2, np.uint8)]))
    assert seen == [4, 4, 4]


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


def test_weights_that_are_no_counts_do_not_pass_for_examples(tmp_path: Path) -> None:
    run(record(fedavg(weighted_by_key="loss", fraction_evaluate=0.0), tmp_path / "run"), LocalGrid(client_app()), rounds=1)
    trace = opened(tmp_path / "run")
    assert not trace.size.any() and trace.header.settings["weighting"] == "equal"


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
