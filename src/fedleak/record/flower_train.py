"""Strategies that exchange messages (`flwr.serverapp`): configure_train, aggregate_train and start."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from fedleak.record.arrays import Arrays
from fedleak.record.flower_arrays import from_array_record
from fedleak.record.flower_hooks import (
    NO_REPLY,
    Recording,
    Sent,
    argument,
    choose_model,
    difference,
    error_kind,
    replace_methods,
    with_argument,
)
from fedleak.record.recorder import Reply

__all__ = ["TrainHooks", "IDENTITY", "PARTITION", "METRIC"]

PARTITION = "partition-id"  # as Flower names it in a node's configuration
IDENTITY = "fedleak.identify"  # the record of a reply that tells it
METRIC = "fedleak-partition-id"  # the metric that tells it, in the older kind of reply

# A recorder outside of a wrapper takes the note out before the recorder inside of it sees the same message.
_told: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


class TrainHooks:
    """Watches one strategy."""

    needed: ClassVar[Sequence[str]] = ("configure_train", "aggregate_train", "start")

    def __init__(self, strategy: Any, recording: Recording) -> None:
        self._strategy, self._recording = strategy, recording
        self._asked: list[Any] = []  # metadata of the messages: the grid writes their ids into it
        self._key = ""  # of the record that holds the model
        self._others: Mapping[str, Arrays] = {}

    def install(self) -> None:
        """Replace the methods."""
        around = {"start": self._start, "configure_train": self._configure, "aggregate_train": self._aggregate}
        replace_methods(self._strategy, around)

    def _start(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        self._recording.begin()
        try:
            result = method(*args, **kwargs)
        except BaseException as error:
            self._recording.close(f"the run ended with {type(error).__name__}")
            raise
        self._recording.close()
        return result

    def _configure(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        messages = method(*args, **kwargs)
        if not self._recording.active or messages is None:
            return messages
        if not isinstance(messages, Sequence):
            messages = list(messages)  # a generator can be read only once
        with self._recording.guarded():
            self._recording.begin()
            self._sent(messages, argument(args, kwargs, 1, "arrays"))
        return messages

    def _sent(self, messages: Sequence[Any], arrays: Any) -> None:
        self._asked = [message.metadata for message in messages]
        sent = []
        for message in messages:
            self._key = self._model_key(message.content)
            record = message.content[self._key] if self._key else {}
            sent.append(Sent(str(message.metadata.dst_node_id), record, _reader(record)))
        model, self._others = choose_model(sent, from_array_record(arrays or {}))
        self._recording.recorder.sent(model)

    def _aggregate(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        replies = argument(args, kwargs, 1, "replies")
        if replies is None:
            return method(*args, **kwargs)
        replies = list(replies)
        args, kwargs = with_argument(args, kwargs, 1, "replies", replies)
        told: list[Reply] = []
        lost: list[tuple[str, str]] = []
        with self._recording.guarded():
            # Before the strategy sees them: wrappers change replies in place.
            partitions = [_take_partition(reply) for reply in replies]
            if self._recording.active:
                told, lost = self._read(replies, partitions)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            self._end(told, lost, None)
            raise
        with self._recording.guarded():
            self._end(told, lost, result[0])
        return result

    def _end(self, replies: Sequence[Reply], lost: Sequence[tuple[str, str]], record: Any) -> None:
        with self._recording.guarded():
            after = from_array_record(record) if record else None
            self._recording.recorder.received(replies, lost, after)
        self._asked, self._others = [], {}

    def _read(self, replies: Sequence[Any], partitions: Sequence[str | None]) -> tuple[list[Reply], list[Any]]:
        by_message = {asked.message_id: str(asked.dst_node_id) for asked in self._asked if asked.message_id}
        waiting = dict.fromkeys(str(asked.dst_node_id) for asked in self._asked)
        found: list[Reply] = []
        lost: list[tuple[str, str]] = []
        for reply, partition in zip(replies, partitions, strict=True):
            # Where a node is gone, the SuperLink answers in its place and under its own id.
            client = by_message.get(reply.metadata.reply_to_message_id, str(reply.metadata.src_node_id))
            waiting.pop(client, None)
            if reply.has_error():
                lost.append((client, error_kind(reply.error)))
            elif not (arrays := self._arrays_of(reply.content)):
                lost.append((client, "its reply holds no arrays"))
            else:
                found.append(self._reply(client, arrays, reply.content, partition))
        return found, lost + [(client, NO_REPLY) for client in waiting]

    def _reply(self, client: str, arrays: Arrays, content: Any, partition: str | None) -> Reply:
        alone = self._others.get(client)
        return Reply(
            client=client,
            arrays=arrays if alone is None else difference(arrays, alone),
            examples=_whole(_metric(content, self._setting("weighted_by_key", "num-examples"))),
            partition=partition,
            differences=alone is not None,
        )

    def _arrays_of(self, content: Any) -> Arrays:
        """The arrays of a reply; those beside the model are named by their record, so that none passes for a weight."""
        home = self._model_key(content)
        found = dict(from_array_record(content[home])) if home else {}
        for key, record in content.array_records.items():
            if key != home:
                found |= {f"{key}/{name}": array for name, array in from_array_record(record).items()}
        return found

    def _model_key(self, content: Any) -> str:
        keys = list(content.array_records)
        for wanted in (self._setting("arrayrecord_key", "arrays"), self._key):
            if wanted in keys:
                return wanted
        return keys[0] if keys else ""

    def _setting(self, name: str, default: str) -> str:
        """A setting of the strategy, or of the strategy that it wraps."""
        strategy = self._strategy
        for _ in range(8):
            if isinstance(value := getattr(strategy, name, None), str):
                return value
            strategy = getattr(strategy, "strategy", None)
        return default


def _reader(record: Any) -> Any:
    return lambda: from_array_record(record)


def _take_partition(reply: Any) -> str | None:
    if reply.has_content() and IDENTITY in reply.content:
        _told[reply] = str(reply.content.pop(IDENTITY)[PARTITION])
    return _told.get(reply)


def _metric(content: Any, key: str) -> Any:
    return next((record[key] for record in content.metric_records.values() if key in record), None)


def _whole(value: Any) -> int | None:
    """A number of examples; None for a weight that is none, such as a loss."""
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0 and value == int(value):
        return int(value)
    return None
