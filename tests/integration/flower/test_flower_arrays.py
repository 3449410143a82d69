# ruff: noqa: E402 - without Flower these tests are skipped
# mypy: disallow-subclassing-any=False, warn-return-any=False
"""What clients send: buffers, half precision, integers, parts of a model, models of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.integration
pytest.importorskip("flwr")
from flower_local import (
    LocalGrid,
    client_app,
    fedavg,
    model,
    opened,
    reply_with,
    run,
    state,
    step,
    train_reply,
    update_of,
    who,
)
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import (
    FedAvg,
    FedXgbBagging,
)

from fedleak.record.flower import record
from fedleak.trace.closed import Closed


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


def test_weights_that_are_no_counts_do_not_pass_for_examples(tmp_path: Path) -> None:
    strategy = record(fedavg(weighted_by_key="loss", fraction_evaluate=0.0), tmp_path / "run")
    run(strategy, LocalGrid(client_app()), rounds=1)
    trace = opened(tmp_path / "run")
    assert not trace.size.any() and trace.header.settings["weighting"] == "equal"
