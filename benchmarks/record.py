"""What recording a Flower run costs beside the server's own work, and how many bytes a round takes.

    python benchmarks/record.py [--folder DIR] [--rounds N]      in an environment with flwr

FedAvg of Flower aggregates ten real replies, with and without a recorder around it, in turns, so that other load on the
machine falls on both alike. CPU time of the process, user and system. `recording` is what the recorder adds in the
median turn (configure_train and aggregate_train together), `ratio` is that divided by FedAvg's own aggregate_train. In
the same turns as many bytes are written to a file through the page cache and nothing else (`write`): on a virtual
machine the system time of that varies tenfold, with the pages that the host has to find, and the recorder avoids it for
long rows. The limit of 2 is on the ratio with everything in it. The disk is given time between the turns. The bytes are
those that the last round added.
"""

# mypy: disallow-subclassing-any=False
from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from fedleak.record.flower import record

LIMIT = 2.0
CLIENTS = 10
SIZES = {
    "1M parameters": {"fc1": (784, 1000), "fc2": (1000, 200), "fc3": (200, 100), "out": (100, 10)},
    # About the shapes of a ResNet-18.
    "11M parameters": {
        "conv1": (64, 147),
        **{f"layer1.{n}": (64, 576) for n in range(4)},
        **{f"layer2.{n}": (128, 1152 if n else 576) for n in range(4)},
        **{f"layer3.{n}": (256, 2304 if n else 1152) for n in range(4)},
        **{f"layer4.{n}": (512, 4608 if n else 2304) for n in range(4)},
        "fc": (512, 1000),
    },
}


class Everybody(FedAvg):
    """FedAvg that asks fixed nodes, because there is no grid here to draw from."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        content = RecordDict({"arrays": arrays, "config": config})
        return self._construct_messages(content, list(range(100, 100 + CLIENTS)), "train")


def model(shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> ArrayRecord:
    found = {}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = Array(rng.normal(size=shape).astype(np.float32))
        found[f"{name}.bias"] = Array(rng.normal(size=shape[-1]).astype(np.float32))
    return ArrayRecord(found)


def turns(strategy: Any, arrays: Any, contents: list[RecordDict]) -> Iterator[tuple[float, float]]:
    """CPU seconds of configure_train and aggregate_train, round after round."""
    number = 0
    while True:
        number += 1
        before = time.process_time()
        messages = strategy.configure_train(number, arrays, ConfigRecord(), None)
        configured = time.process_time() - before
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"{number}-{message.metadata.dst_node_id}"
        replies = [Message(content, reply_to=message) for content, message in zip(contents, messages, strict=True)]
        before = time.process_time()
        arrays, _ = strategy.aggregate_train(number, replies)
        yield configured, time.process_time() - before


def disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write_alone(folder: Path, size: int) -> float:
    """CPU seconds of appending so many bytes to a file, a MiB at a time."""
    chunk = b"\1" * (1 << 20)
    before = time.process_time()
    with open(folder / "plain", "ab", buffering=0) as file:
        for start in range(0, size, len(chunk)):
            file.write(chunk[: size - start])
    return time.process_time() - before


def measure(name: str, shapes: Mapping[str, tuple[int, ...]], folder: Path, rounds: int, **settings: Any) -> float:
    rng = np.random.default_rng(0)
    start = model(shapes, rng)
    metrics = [MetricRecord({"num-examples": 10 + n}) for n in range(CLIENTS)]
    contents = [RecordDict({"arrays": model(shapes, rng), "metrics": one}) for one in metrics]
    plain = turns(Everybody(), start, contents)
    recorded = turns(record(Everybody(), folder, **settings), start, contents)
    own, added, written, taken = [], [], [], 0
    for number in range(rounds + 2):
        before = disk(folder) if folder.exists() else 0
        (idle, alone), (configured, together) = next(plain), next(recorded)
        if number >= 2:  # the first rounds create the files and fill caches
            own.append(alone)
            added.append(configured + together - idle - alone)
            written.append(write_alone(folder.parent, taken))
        taken = disk(folder) - before
        os.sync()  # outside of what is measured: a full page cache would be charged to whoever writes next
    ratio = statistics.median(added) / statistics.median(own)
    write = statistics.median(written)
    parameters = sum(len(array.data) for array in start.values()) // 4
    print(
        f"{name:16} {settings or 'all updates'!s:24} aggregate_train {1e3 * statistics.median(own):7.1f} ms"
        f"   recording {1e3 * statistics.median(added):7.1f} ms   ratio {ratio:.2f}"
        f"   write {1e3 * write:7.1f} ms"
        f"   {taken:,} bytes a round ({taken / parameters / 4:.1f} models)"
    )
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="on the disk to measure; a temporary folder if absent")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    logging.getLogger("flwr").setLevel(logging.WARNING)
    worst = 0.0
    for number, (name, shapes) in enumerate(SIZES.items()):
        for settings in ({}, {"dtype": "float16"}, {"sums": True}):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                ratio = measure(name, shapes, Path(folder) / f"run-{number}", options.rounds, **settings)
            worst = max(worst, ratio if not settings else 0.0)
    print(f"limit {LIMIT}: {'kept' if worst <= LIMIT else 'exceeded'}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
