"""Rounds per second of the embedded engine, beside a plain loop over clients, Flower's simulation and pfl.

    python benchmarks/engine.py                 makes a virtual environment for each peer, then measures
    python benchmarks/engine.py --peers DIR     keeps them in DIR (DIR/flwr, DIR/pfl), or reuses those there
    python benchmarks/engine.py --skip-peers    the plain loop only

Every contestant does the same job (contestants/job.py) from the same weights, each time in a process of its own, and
repetitions take turns, so that a busy moment of the machine does not fall on one of them. Figures are medians over the
rounds after the first of each run; the first, which pays for start-up, stands beside them, and so does the processor
time, which says more than the clock on a machine that does other work. Ends with 1 if a target is missed by the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

HERE = Path(__file__).parent / "contestants"
TARGETS = {"mlp-5k": 8.0, "mlp-80k": 2.0, "cnn": 1.4, "lstm": 1.1}
PEERS = {"flwr": "flwr[simulation]", "pfl": "pfl"}
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass
class Contestant:
    """One way to do the job, and what was measured of it."""

    title: str
    script: str
    threads: int
    python: str = sys.executable
    repeat: int = 4  # runs in one process
    turns: int = 1_000  # at most this many processes
    first: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    failure: str = ""

    @property
    def rate(self) -> float:
        """Rounds per second."""
        return 1 / statistics.median(self.rounds) if self.rounds else 0.0

    @property
    def cost(self) -> float:
        """Processor seconds per round."""
        return statistics.median(self.processor)


def contestants(peers: Path | None) -> list[Contestant]:
    """The plain loop, our engine, and each peer.

    The plain loop and pfl get one thread: on two, operations as small as these wait for each other and are slower.
    """
    found = [
        Contestant("plain loop, 1 thread", "plain.py", 1),
        Contestant("fedleak, 1 worker", "embedded.py", 1, repeat=10),
        Contestant("fedleak, 2 workers", "embedded.py", 2, repeat=10),
    ]
    if peers is not None:
        found.append(Contestant("pfl", "pfl_peer.py", 1, str(peers / "pfl/bin/python")))
        # Starting Ray takes most of a minute, so Flower gets one turn.
        found.append(
            Contestant("Flower, 2 at a time", "flower_peer.py", 1, str(peers / "flwr/bin/python"), repeat=1, turns=1)
        )
    return found


def prepare(peers: Path) -> None:
    """Give each peer an environment of its own: their pins differ from ours and from each other's."""
    for name, requirement in PEERS.items():
        if not (peers / name / "bin/python").exists():
            print(f"making an environment for {name} ...", flush=True)
            venv.create(peers / name, with_pip=True)
            pip = [str(peers / name / "bin/python"), "-m", "pip", "install", "--quiet", "torch", "numpy", requirement]
            subprocess.run(pip, check=True, timeout=1800)


def measure(contestant: Contestant, job: Path, model: str, limit: float) -> None:
    """Run one process to its end or the time limit, watching the memory of it and its children."""
    command = [contestant.python, contestant.script, str(job), model, str(contestant.threads), str(contestant.repeat)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=HERE, stdout=output, stderr=errors, env={**os.environ, **QUIET})
        deadline = time.monotonic() + limit
        tree: dict[int, psutil.Process] = {}
        while process.poll() is None and time.monotonic() < deadline:
            tree |= {p.pid: p for p in _tree(process.pid)}
            contestant.peak_mb = max(contestant.peak_mb, sum(map(_pss, tree.values())) / 2**20)
            time.sleep(0.5)
        late = process.poll() is None
        # Children first: a simulation leaves servers behind when it is ended from outside.
        for client in reversed(tree.values()):
            if client.is_running() and (late or client.pid != process.pid):
                client.kill()
        process.wait()
        output.seek(0)
        errors.seek(0)
        lines = [json.loads(line[7:]) for line in output if line.startswith("RESULT ")]
        if late or not lines:
            contestant.failure = f"not done in {limit:.0f} s" if late else errors.read()[-500:]
            return
    for line in lines:
        contestant.first.append(line["wall"][0])
        contestant.rounds += line["wall"][1:]
        contestant.processor += line["processor"][1:]
        contestant.accuracy.append(line["accuracy"])


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _pss(process: psutil.Process) -> int:
    """Memory with shared pages divided among those who share them, so that a tree can be added up."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def table(model: str, field_: Sequence[Contestant]) -> None:
    """Print one model's figures; `x plain` compares with the plain loop on one thread."""
    plain = field_[0].rate
    print(f"\n{model}")
    print("| contestant | rounds/s | x plain | CPU ms/round | x plain | first round, s | accuracy | peak MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for c in field_:
        if c.failure and not c.rounds:
            print(f"| {c.title} | failed: {c.failure.strip().splitlines()[-1]} | | | | | | |")
            continue
        # Flower's clients work in other processes, which its server's clock does not count.
        cost = "- | -" if c.turns == 1 else f"{1000 * c.cost:.1f} | {field_[0].cost / c.cost:.2f}"
        print(
            f"| {c.title} | {c.rate:.1f} | {c.rate / plain:.2f} | {cost} | {statistics.median(c.first):.2f} "
            f"| {statistics.mean(c.accuracy):.3f}{_spread(c.accuracy)} | {c.peak_mb:.0f} |",
            flush=True,
        )


def _spread(accuracy: Sequence[float]) -> str:
    """Contestants shuffle differently: accuracies are equal if they differ by less than this, not to the digit."""
    return f" ± {statistics.stdev(accuracy):.3f}" if len(accuracy) > 1 else ""


def verdict(model: str, field_: Sequence[Contestant]) -> bool:
    """Hold one worker against the plain loop on one thread, and against every peer."""
    plain, ours = field_[0].rate, field_[1].rate
    peers = [c for c in field_[3:] if c.rounds]
    ratio = ours / plain if plain else 0.0
    behind = [c.title for c in peers if c.rate >= ours]
    met = ratio >= TARGETS[model] and not behind
    words = "met" if met else "MISSED" + (f", behind {', '.join(behind)}" if behind else "")
    ahead = "".join(f"; {ours / c.rate:.1f}x of {c.title.split(',')[0]}" for c in peers)
    print(f"target {TARGETS[model]:g}x of the plain loop: {ratio:.2f}x{ahead}: {words}", flush=True)
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the engine beside its peers.")
    parser.add_argument("--peers", type=Path, help="folder of the peers' environments, made if absent")
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--models", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--turns", type=int, default=3, help="processes of each contestant")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which a process is ended")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    from make_job import make

    met = True
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        peers = None if options.skip_peers else (options.peers or Path(folder) / "peers").resolve()
        if peers is not None:
            prepare(peers)
        for model in options.models:
            found = contestants(peers)
            for turn in range(options.turns):
                for contestant in found:
                    if turn < contestant.turns and not contestant.failure:
                        measure(contestant, Path(folder) / f"{model}.npz", model, options.limit)
            table(model, found)
            met &= verdict(model, found)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
