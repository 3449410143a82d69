# mypy: disallow-subclassing-any=False, warn-return-any=False, disallow-untyped-decorators=False
"""A Flower grid that runs ClientApps in this process: real strategies, messages, mods and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

pytest.importorskip("flwr")
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.clientapp import ClientApp
from flwr.server.superlink.linkstate.utils import create_message_error_unavailable_res_message
from flwr.serverapp.grid import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedleak.record.key import read_key
from fedleak.record.state import RecorderState
from fedleak.trace.reader import Trace

TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

Behaviour = Callable[[int, Message], str]  # of a partition: "" it works, or "unavailable", "late", "crash"
NODES = {partition: 7_000_000_001 + 13 * partition for partition in range(8)}


def partition_of(node: int) -> int:
    return (node - 7_000_000_001) // 13


class LocalGrid(Grid):
    """Every message is serialised on its way, as in a deployment."""

    def __init__(self, app: ClientApp, nodes: int = 4, behave: Behaviour = lambda *_: "") -> None:
        self.app, self.behave = app, behave
        self.nodes = {
            NODES[partition]: Context(
                run_id=1,
                node_id=NODES[partition],
                node_config={"partition-id": partition, "num-partitions": nodes},
                state=RecordDict(),
                run_config={},
            )
            for partition in range(nodes)
        }
        self.exchanged: list[str] = []  # kinds of the messages

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        return Run.create_empty(1)

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            self.exchanged.append(message.metadata.message_type)
            node = message.metadata.dst_node_id
            what = self.behave(partition_of(node), message)
            if what == "unavailable":
                replies.append(create_message_error_unavailable_res_message(message.metadata, "node_unavail"))
            elif what == "crash":
                replies.append(Message(Error(2, f"ValueError: user-0{partition_of(node)}"), reply_to=message))
            elif what != "late":
                received = travel(message)
                received.metadata.__dict__["_message_id"] = message.metadata.message_id
                replies.append(travel(self.app(received, self.nodes[node])))
        return replies


def travel(message: Message) -> Message:
    """The message as it arrives at the other end."""
    contents = {key: item.deflate() for key, item in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(arrived, Message)
    return arrived


def step(partition: int, name: str, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the clients of these tests add to their model: known, different for each, the same in every round."""
    rng = np.random.default_rng([partition, *name.encode()])
    return rng.normal(0, 0.1, value.shape).astype(value.dtype)


def examples_of(partition: int) -> int:
    return 10 * (partition + 1)


def train_reply(message: Message, context: Context) -> Message:
    """Train: add a known step to every floating-point array."""
    partition = int(context.node_config["partition-id"])
    (record,) = message.content.array_records.values()
    arrays = {name: array.numpy() for name, array in record.items()}
    moved = {
        name: value + step(partition, name, value) if value.dtype.kind == "f" else value + 1
        for name, value in arrays.items()
    }
    return reply_with(message, moved, examples_of(partition))


def reply_with(message: Message, arrays: dict[str, Any], examples: int) -> Message:
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()}),
            "metrics": MetricRecord({"num-examples": examples, "loss": 0.5}),
        }
    )
    return Message(content, reply_to=message)


def client_app(train: Callable[[Message, Context], Message] = train_reply, mods: list[Any] | None = None) -> ClientApp:
    app = ClientApp(mods=mods or [])

    @app.train()
    def run(message: Message, context: Context) -> Message:
        return train(message, context)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        del context
        metrics = MetricRecord({"num-examples": 5, "accuracy": 0.9})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def model(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "fc1.weight": rng.normal(size=(3, 4)).astype(np.float32),
        "fc1.bias": np.zeros(3, np.float32),
        "fc2.weight": rng.normal(size=(2, 3)).astype(np.float32),
    }


def arrays_of(values: dict[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(value)) for name, value in values.items()})


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
