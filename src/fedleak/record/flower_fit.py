"""Strategies of the older kind (`flwr.server.strategy`, NumPyClient): configure_fit and aggregate_fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedleak.record.arrays import Arrays
from fedleak.record.flower_arrays import from_parameters
from fedleak.record.flower_hooks import (
    NO_REPLY,
    Recording,
    Sent,
    argument,
    choose_model,
    difference,
    error_kind,
    replace_methods,
)
from fedleak.record.flower_train import METRIC
from fedleak.record.recorder import Reply

__all__ = ["FitHooks"]


class FitHooks:
    """Watches one strategy. Under SecAgg+ every result holds the same sum, which the recorder notices."""

    needed: ClassVar[Sequence[str]] = ("configure_fit", "aggregate_fit")

    def __init__(self, strategy: Any, recording: Recording) -> None:
        self._strategy, self._recording = strategy, recording
        self._asked: list[str] = []
        self._others: Mapping[str, Arrays] = {}
        self._rounds = 0  # that ended

    def install(self) -> None:
        """Replace the methods."""
        replace_methods(self._strategy, {"configure_fit": self._configure, "aggregate_fit": self._aggregate})

    def _configure(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        instructions = method(*args, **kwargs)
        if self._recording.active and instructions:
            with self._recording.guarded():
                self._recording.begin()
                self._abandon()
                self._sent(instructions, argument(args, kwargs, 1, "parameters"))
        return instructions

    def _sent(self, instructions: Sequence[Any], parameters: Any) -> None:
        self._asked = [str(proxy.cid) for proxy, _ in instructions]
        sent = [Sent(str(proxy.cid), ins.parameters, _reader(ins.parameters)) for proxy, ins in instructions]
        model, self._others = choose_model(sent, from_parameters(parameters) if parameters else {})
        self._recording.recorder.sent(model)

    def _abandon(self) -> None:
        """A round that SecAgg+ halted is never aggregated."""
        # Before the first sum it is unknown whether single updates will be seen; a trace must not promise them.
        if self._asked and self._rounds:
            lost = [(client, "the round was halted before aggregation") for client in self._asked]
            self._recording.recorder.received([], lost)

    def _aggregate(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        results = argument(args, kwargs, 1, "results") or []
        failures = argument(args, kwargs, 2, "failures") or []
        told: list[Reply] = []
        lost: list[tuple[str, str]] = []
        with self._recording.guarded():
            # Before the strategy sees them: wrappers change results in place.
            partitions = [_take_partition(result) for _, result in results]
            if self._recording.active:
                told, lost = self._read(results, failures, partitions)
        try:
            result = method(*args, **kwargs)
        except BaseException as error:
            self._end(told, lost, None)
            self._recording.close(f"the run ended with {type(error).__name__}")
            raise
        with self._recording.guarded():
            self._end(told, lost, result[0])
        return result

    def _end(self, replies: Sequence[Reply], lost: Sequence[tuple[str, str]], parameters: Any) -> None:
        with self._recording.guarded():
            after = from_parameters(parameters) if parameters else None
            self._recording.recorder.received(replies, lost, after)
        self._asked, self._others, self._rounds = [], {}, self._rounds + 1

    def _read(
        self, results: Sequence[Any], failures: Sequence[Any], partitions: Sequence[str | None]
    ) -> tuple[list[Reply], list[tuple[str, str]]]:
        waiting = dict.fromkeys(self._asked)
        found = []
        for (proxy, result), partition in zip(results, partitions, strict=True):
            client = str(proxy.cid)
            waiting.pop(client, None)
            arrays, alone = from_parameters(result.parameters), self._others.get(client)
            found.append(
                Reply(
                    client=client,
                    arrays=arrays if alone is None else difference(arrays, alone),
                    examples=int(result.num_examples),
                    partition=partition,
                    differences=alone is not None,
                )
            )
        lost = []
        reasons = set()
        for failure in failures:
            if isinstance(failure, tuple):
                waiting.pop(str(failure[0].cid), None)
                lost.append((str(failure[0].cid), "its client returned a status other than OK"))
            else:
                reasons.add(_reason(failure))
        # Flower does not say which client an exception came from.
        why = " or: ".join(sorted(reasons)) or NO_REPLY
        return found, lost + [(client, why) for client in waiting]


def _reader(parameters: Any) -> Any:
    return lambda: from_parameters(parameters)


def _take_partition(result: Any) -> str | None:
    if METRIC in (result.metrics or {}):
        # A recorder inside of a wrapper is given the same result once more.
        result._fedleak_partition = str(result.metrics[METRIC])
        result.metrics = {name: value for name, value in result.metrics.items() if name != METRIC}
    return getattr(result, "_fedleak_partition", None)


def _reason(failure: Any) -> str:
    """What Flower wraps in an exception is the error of a message."""
    inner = failure.args[0] if getattr(failure, "args", ()) else None
    return error_kind(inner) if hasattr(inner, "code") else f"it raised {type(failure).__name__}"
