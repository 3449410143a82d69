"""What recording a run costs, and how fast one layer of all updates is read back.

    python benchmarks/trace.py [--folder DIR]      DIR: on the disk to measure; a temporary folder if absent

Recording: one federation (100 clients, 20 a round, 40 examples each, batches of 10, one epoch, plain SGD) is trained,
and blocks of five rounds are recorded and not recorded in turns, so that other load on the machine falls on both
alike. `with/without` is the ratio of the median block times, with a bootstrap interval over blocks; the limit of 1.10
is on it. `control` is the same ratio among the unrecorded blocks themselves: how far from 1 noise alone gets. `cpu` is
the ratio of processor times, which shows what recording takes from a machine whose cores are all busy.

Reading: one layer of all updates with every checksum compared, against reading the same bytes with nothing compared:
into memory (one array filled from the blocks, against numpy.fromfile; the limit, at least 0.5 of the plain speed, is on
this), and streamed (opening a trace and comparing the layer, as a view does before it maps it, against a plain loop of
read calls of the same size; neither keeps anything). From the page cache, in turns: a cold disk is slower than either
way and would hide the difference. CPU time, which other load on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedleak.core import Layer, Params, Task, UserId, rng_for
from fedleak.federation.federation import Client, Round, initial, train
from fedleak.federation.model import Architecture, Model, Signature
from fedleak.federation.models.cnn import Cnn
from fedleak.federation.models.mlp import Mlp
from fedleak.federation.models.recurrent import WordLm
from fedleak.plan.plan import FederationPlan
from fedleak.population.population import Examples
from fedleak.trace.checksum import checksum
from fedleak.trace.direct_io import _AT_ONCE
from fedleak.trace.header import Header
from fedleak.trace.reader import Trace
from fedleak.trace.writer import TraceWriter

CLIENTS, PER_ROUND, EXAMPLES, BATCH = 100, 20, 40, 10
COST_LIMIT, SPEED_LIMIT = 1.10, 0.5
BLOCK = 1 << 21
BLOCK_ROUNDS = 5

JOBS: Sequence[tuple[str, Architecture, Signature, int]] = (
    ("MLP, 5 K parameters", Mlp(hidden=(64,)), Signature(Task.CLASSIFY, (1, 8, 8), 10), 120),
    ("MLP, 80 K parameters", Mlp(hidden=(100,)), Signature(Task.CLASSIFY, (1, 28, 28), 10), 80),
    ("small CNN", Cnn(), Signature(Task.CLASSIFY, (1, 28, 28), 10), 30),
    ("LSTM", WordLm(), Signature(Task.NEXT_TOKEN, (16,), 500), 30),
)


def clients(signature: Signature) -> list[Client]:
    rng = rng_for(1, "benchmark")
    found = []
    for index in range(CLIENTS):
        shape = (EXAMPLES, *signature.input_shape)
        if signature.task is Task.NEXT_TOKEN:
            data = Examples(x=rng.integers(1, signature.outputs, shape))
        else:
            data = Examples(x=rng.random(shape, dtype=np.float32), y=rng.integers(0, signature.outputs, EXAMPLES))
        found.append(Client(f"d-{index}", UserId(str(index)), -1, data))
    return found


def header(model: Model, signature: Signature, rounds: int) -> Header:
    return Header(
        fingerprint="benchmark",
        rounds=rounds,
        task=signature.task,
        model="benchmark",
        layout=model.layout,
        clients=tuple(f"d-{index}" for index in range(CLIENTS)),
        shadow=(-1,) * CLIENTS,
    )


def block_times(
    model: Model, users: Sequence[Client], plan: FederationPlan, writer: TraceWriter
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the seconds (clock, processor) of recorded blocks and of unrecorded ones."""
    times: tuple[list[tuple[float, float]], list[tuple[float, float]]] = [], []
    writer.start(initial(model, 1))
    rounds = train(model, users, plan, (), None, 1)
    for _ in range(BLOCK_ROUNDS):  # warm up
        next(rounds)
    for block in range(plan.rounds // BLOCK_ROUNDS - 1):
        now = time.perf_counter(), time.process_time()
        for done in itertools.islice(rounds, BLOCK_ROUNDS):
            if block % 2 == 0:
                writer.append(dataclasses.replace(done, number=writer.rounds + 1))
        times[block % 2].append((time.perf_counter() - now[0], time.process_time() - now[1]))
    return times


def ratio_of(these: Sequence[float], those: Sequence[float]) -> float:
    return statistics.median(these) / statistics.median(those)


def interval(these: Sequence[float], those: Sequence[float]) -> tuple[float, float]:
    rng = rng_for(1, "bootstrap")
    drawn = [ratio_of(list(rng.choice(these, len(these))), list(rng.choice(those, len(those)))) for _ in range(1000)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def cost(folder: Path | None, job: tuple[str, Architecture, Signature, int]) -> float:
    name, architecture, signature, blocks = job
    model, users = architecture.build(signature), clients(signature)
    rounds = (blocks + 1) * BLOCK_ROUNDS
    plan = FederationPlan(rounds=rounds, fraction=PER_ROUND / CLIENTS, batch=BATCH, lr=0.05, clip=5.0)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        writer = TraceWriter.open(Path(place) / "trace", header(model, signature, rounds))
        recorded, plain = block_times(model, users, plan, writer)
        volume = sum(path.stat().st_size for path in writer.folder.iterdir()) / writer.rounds
    (clock, cpu), (plain_clock, plain_cpu) = (zip(*times, strict=True) for times in (recorded, plain))
    ratio, (low, high) = ratio_of(clock, plain_clock), interval(clock, plain_clock)
    control = ratio_of(plain_clock[::2], plain_clock[1::2])
    print(
        f"{name:21} {1000 * statistics.median(plain_clock) / BLOCK_ROUNDS:8.1f} {volume / 1e6:8.2f} "
        f"{ratio:12.3f} [{low:.3f}, {high:.3f}] {control:8.3f} {ratio_of(cpu, plain_cpu):7.3f}",
        flush=True,
    )
    return ratio


def writes(folder: Path | None) -> None:
    """Why a round is written in pieces: the same bytes, appended by calls of different sizes."""
    data = np.ones(6 << 20, np.uint8)
    for piece in (data.size, _AT_ONCE):
        taken = []
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(50):
                before = time.perf_counter()
                for start in range(0, data.size, piece):
                    file.write(data[start : start + piece].data)
                taken.append(time.perf_counter() - before)
        print(f"6 MiB in calls of {piece >> 20} MiB{'':16} {1000 * statistics.median(taken):6.1f} ms")


def plain_read(path: Path) -> None:
    with open(path, "rb", buffering=0) as file:
        while file.read(BLOCK):
            pass


def compared(place: Path) -> None:
    """What an attack's view does before it maps the layer."""
    Trace.open(place).updates("wide")


def loaded(trace: Trace, rows: int, size: int) -> None:
    whole, start = np.empty((rows, size), np.float32), 0
    for block in trace.blocks("wide"):
        whole[start : start + len(block)] = block
        start += len(block)


def speed(folder: Path | None, megabytes: int, repeats: int) -> float:
    layer, other = Layer("wide", (("weight", (256, 100)),)), Layer("other", (("weight", (256, 100)),))
    rows = megabytes * 1_000_000 // (4 * layer.size * PER_ROUND) * PER_ROUND
    rng = rng_for(1, "updates")
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
                clients=tuple(f"d-{index}" for index in range(CLIENTS)),
                shadow=(-1,) * CLIENTS,
            ),
        )
        writer.start(model)
        for number in range(1, rows // PER_ROUND + 1):
            update = rng.standard_normal((PER_ROUND, layer.size), dtype=np.float32)
            writer.append(
                Round(
                    number=number,
                    clients=np.arange(PER_ROUND),
                    sizes=np.full(PER_ROUND, EXAMPLES),
                    updates={"wide": update, "other": update},
                    aggregate=model,
                    weights=model,
                )
            )
        path = place / "update-000.bin"
        size = path.stat().st_size
        trace = Trace.open(place)
        contest: dict[str, Callable[[], object]] = {
            "streamed: plain read calls": lambda: plain_read(path),
            "streamed: opened and all compared": lambda: compared(place),
            "into memory: numpy.fromfile": lambda: np.fromfile(path, np.float32),
            "into memory: blocks, all compared": lambda: loaded(trace, rows, layer.size),
        }
        times: dict[str, list[float]] = {way: [] for way in contest}
        for _ in range(repeats + 1):
            for way, work in contest.items():
                before = time.process_time()
                work()
                times[way].append(time.process_time() - before)
    for way, taken in times.items():
        print(f"{way:36} {size / statistics.median(taken[1:]) / 1e9:6.2f} GB/s")
    plain_stream, our_stream, plain_load, our_load = (taken[1:] for taken in times.values())
    streaming = statistics.median(a / b for a, b in zip(plain_stream, our_stream, strict=True))
    loading = statistics.median(a / b for a, b in zip(plain_load, our_load, strict=True))
    print(f"of the plain speed: into memory {loading:.2f} (limit: at least {SPEED_LIMIT}), streamed {streaming:.2f}")
    return loading


def checksums() -> None:
    """Why CRC-32: what the standard library offers, over blocks that fit in the cache."""
    block = np.frombuffer(rng_for(1, "block").bytes(BLOCK), np.uint8)
    ways: dict[str, Callable[[], object]] = {
        "folded, then zlib.crc32 (ours)": lambda: checksum(block),
        "zlib.crc32": lambda: zlib.crc32(block.data),
        "zlib.adler32": lambda: zlib.adler32(block.data),
        "hashlib.sha256": lambda: hashlib.sha256(block.data),
        "hashlib.blake2b": lambda: hashlib.blake2b(block.data),
    }
    for name, way in ways.items():
        taken = []
        for _ in range(30):
            before = time.perf_counter()
            way()
            taken.append(time.perf_counter() - before)
        print(f"{name:36} {BLOCK / statistics.median(taken) / 1e9:6.2f} GB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording costs and how fast it is read back.")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--megabytes", type=int, default=400)
    arguments = parser.parse_args()
    print(
        f"recording             ms/round MB/round with/without                 control     cpu   (limit: {COST_LIMIT})"
    )
    costs = [cost(arguments.folder, job) for job in JOBS]
    print("\nwriting")
    writes(arguments.folder)
    print(f"\nreading one layer of all updates ({arguments.megabytes} MB, page cache)")
    ratio = speed(arguments.folder, arguments.megabytes, arguments.repeats)
    print("\nchecksums of 2 MiB")
    checksums()
    if max(costs) > COST_LIMIT or ratio < SPEED_LIMIT:
        sys.exit("a limit is missed")


if __name__ == "__main__":
    main()
