"""What recording a run costs, and how fast one layer of all updates is read back.

    python benchmarks/trace.py [--folder DIR]      DIR: on the disk to measure; a temporary folder if absent

Recording: the same federation (100 clients, 20 a round, 40 examples each, batches of 10, one epoch, plain SGD) is
trained with and without a trace, in turns, in one process; the median of the paired ratios is given, and beside it the
share of the recorded run's time that is spent inside `TraceWriter`, which other load on the machine disturbs less.
Limit: 1.10. Every part of an audit that follows training makes the share of recording smaller still.

Reading: one layer of all updates, streamed in blocks with every checksum compared, against a plain loop of read calls
over the same file with the same block size that keeps nothing. Both from the page cache, in turns: a cold disk
is slower than either and would hide the difference. Limit: 0.5 of the plain loop's speed.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedleak.core import Layer, Params, Task, UserId, derive
from fedleak.federation.federation import Device, Round, initial, train
from fedleak.federation.model import Architecture, Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.recurrent import WordLm
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter

CLIENTS, PER_ROUND, EXAMPLES, BATCH = 100, 20, 40, 10
COST_LIMIT, SPEED_LIMIT = 1.10, 0.5
BLOCK = 1 << 18

JOBS: Sequence[tuple[str, Architecture, Signature, int]] = (
    ("MLP, 5 K parameters", Mlp(hidden=(64,)), Signature(Task.CLASSIFY, (1, 8, 8), 10), 60),
    ("MLP, 80 K parameters", Mlp(hidden=(100,)), Signature(Task.CLASSIFY, (1, 28, 28), 10), 30),
    ("small CNN", Cnn(), Signature(Task.CLASSIFY, (1, 28, 28), 10), 15),
    ("LSTM", WordLm(), Signature(Task.NEXT_TOKEN, (16,), 500), 10),
)


def devices(signature: Signature) -> list[Device]:
    rng = derive(1, "benchmark")
    found = []
    for index in range(CLIENTS):
        shape = (EXAMPLES, *signature.input_shape)
        if signature.task is Task.NEXT_TOKEN:
            data = Examples(x=rng.integers(1, signature.outputs, shape))
        else:
            data = Examples(x=rng.random(shape, dtype=np.float32), y=rng.integers(0, signature.outputs, EXAMPLES))
        found.append(Device(f"d-{index}", UserId(str(index)), -1, data))
    return found


def header(model: Model, signature: Signature, rounds: int) -> Header:
    return Header(
        fingerprint="benchmark",
        rounds=rounds,
        task=signature.task,
        model="benchmark",
        layout=model.layout,
        devices=tuple(f"d-{index}" for index in range(CLIENTS)),
        shadow=(-1,) * CLIENTS,
    )


def run(
    model: Model, people: Sequence[Device], plan: FederationPlan, writer: TraceWriter | None
) -> tuple[float, float]:
    """Return the seconds of the run, and those of them spent on recording."""
    recording = 0.0
    began = time.perf_counter()
    if writer is not None:
        writer.start(initial(model, 1))
        recording += time.perf_counter() - began
    for record in train(model, people, plan, (), None, 1):
        if writer is not None:
            before = time.perf_counter()
            writer.append(record)
            recording += time.perf_counter() - before
    return time.perf_counter() - began, recording


def cost(folder: Path, job: tuple[str, Architecture, Signature, int], repeats: int) -> float:
    name, architecture, signature, rounds = job
    model, people = architecture.build(signature), devices(signature)
    plan = FederationPlan(rounds=rounds, fraction=PER_ROUND / CLIENTS, batch=BATCH, lr=0.05, clip=5.0)
    run(model, people, plan, None)
    ratios, shares, plain_times, volume = [], [], [], 0
    for turn in range(repeats):
        plain, _ = run(model, people, plan, None)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            writer = TraceWriter.open(Path(place) / "trace", header(model, signature, rounds))
            recorded, inside = run(model, people, plan, writer)
            volume = sum(path.stat().st_size for path in writer.folder.iterdir())
        ratios.append(recorded / plain)
        shares.append(inside / (recorded - inside))
        plain_times.append(plain)
        print(f"\r  {name}: {turn + 1}/{repeats}", end="", file=sys.stderr, flush=True)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    ratio = statistics.median(ratios)
    print(
        f"{name:22} {1000 * statistics.median(plain_times) / rounds:9.1f} {volume / rounds / 1e6:9.2f} "
        f"{ratio:12.3f} {1 + statistics.median(shares):12.3f}"
    )
    return 1 + statistics.median(shares)


def plain_read(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(BLOCK):
            pass


def streamed(trace: Trace) -> None:
    for _ in trace.blocks("wide"):
        pass


def mapped(folder: Path) -> None:
    Trace.open(folder).updates("wide").sum()


def summed(path: Path) -> None:
    np.memmap(path, dtype="<f4", mode="r").sum()


def speed(folder: Path, megabytes: int, repeats: int) -> float:
    layer, other = Layer("wide", (("weight", (256, 100)),)), Layer("other", (("weight", (256, 100)),))
    rows = megabytes * 1_000_000 // (4 * layer.size * PER_ROUND) * PER_ROUND
    rng = derive(1, "updates")
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name) / "trace"
        model: Params = {part.name: np.zeros(part.size, np.float32) for part in (layer, other)}
        writer = TraceWriter.open(
            place,
            Header(
                fingerprint="benchmark",
                rounds=rows // PER_ROUND,
                task=Task.CLASSIFY,
                model="benchmark",
                layout=(layer, other),
                devices=tuple(f"d-{index}" for index in range(CLIENTS)),
                shadow=(-1,) * CLIENTS,
            ),
        )
        writer.start(model)
        for number in range(1, rows // PER_ROUND + 1):
            update = rng.standard_normal((PER_ROUND, layer.size), dtype=np.float32)
            writer.append(
                Round(
                    number=number,
                    participants=np.arange(PER_ROUND),
                    sizes=np.full(PER_ROUND, EXAMPLES),
                    updates={"wide": update, "other": update},
                    aggregate=model,
                    weights=model,
                )
            )
        path = place / "update-000.bin"
        size = path.stat().st_size
        trace = Trace.open(place)
        contest: dict[str, Callable[[], None]] = {
            "plain read calls": lambda: plain_read(path),
            "blocks, every checksum compared": lambda: streamed(trace),
            "numpy.memmap and a sum": lambda: summed(path),
            "mapped, compared first, and a sum": lambda: mapped(place),
        }
        times: dict[str, list[float]] = {way: [] for way in contest}
        for _ in range(repeats + 1):
            for way, work in contest.items():
                before = time.perf_counter()
                work()
                times[way].append(time.perf_counter() - before)
    raw, ours, plain_sum, our_sum = (taken[1:] for taken in times.values())
    streaming = statistics.median(a / b for a, b in zip(raw, ours, strict=True))
    mapping = statistics.median(a / b for a, b in zip(plain_sum, our_sum, strict=True))
    for way, taken in times.items():
        print(f"{way:36} {size / statistics.median(taken[1:]) / 1e9:6.2f} GB/s")
    print(f"blocks against plain read calls      {streaming:6.2f}   (limit: at least {SPEED_LIMIT})")
    print(f"mapped against numpy.memmap          {mapping:6.2f}")
    return streaming


def checksums() -> None:
    """Why CRC-32: what the standard library offers, over blocks that fit in the cache."""
    block = derive(1, "block").bytes(BLOCK)
    ways: dict[str, Callable[[bytes], object]] = {
        "zlib.crc32": zlib.crc32,
        "zlib.adler32": zlib.adler32,
        "hashlib.sha256": hashlib.sha256,
        "hashlib.blake2b": hashlib.blake2b,
    }
    for name, way in ways.items():
        taken = []
        for _ in range(30):
            before = time.perf_counter()
            way(block)
            taken.append(time.perf_counter() - before)
        print(f"{name:36} {BLOCK / statistics.median(taken) / 1e9:6.2f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording costs and how fast it is read back.")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=400)
    arguments = parser.parse_args()
    print(f"recording                  ms/round  MB/round  with/without  from append   (limit: {COST_LIMIT})")
    costs = [cost(arguments.folder, job, arguments.repeats) for job in JOBS]
    print(f"\nreading one layer of all updates ({arguments.megabytes} MB, page cache)")
    ratio = speed(arguments.folder, arguments.megabytes, arguments.repeats)
    print("\nchecksums of 1 MiB")
    checksums()
    if max(costs) > COST_LIMIT or ratio < SPEED_LIMIT:
        sys.exit("a limit is missed")


if __name__ == "__main__":
    main()
