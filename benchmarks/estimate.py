"""What `fedleak check` estimates for shipped plans, against what they took.

    python benchmarks/estimate.py PLAN... [--run]

What a plan took is in its summary in docs/results/data, by the clock, where its figures were measured with
`fedleak reproduce`. With --run each plan is audited here instead, and computing time, which other programs disturb less
than the clock, is compared, together with the most memory of all processes at one time and the disk that it needs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
import threading
from pathlib import Path

from fedleak.core import data_size
from fedleak.pipeline.calibrate import calibrate
from fedleak.pipeline.estimate import Estimate, estimate
from fedleak.plan.read import load_plan
from fedleak.plan.shipped import find
from fedleak.reproduce.summary import folder, plan_name, read_all

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parent ends become ours, with what they used


def estimated(name: str) -> Estimate:
    """As `fedleak check` does."""
    plan = load_plan(find(name))
    with tempfile.TemporaryDirectory() as scratch:
        found = calibrate(plan, Path(scratch), lambda text: None)
    assert found is not None
    return estimate(plan, found)


def recorded() -> dict[str, tuple[float, str]]:
    """Minutes of each plan by the clock, and on which machine; the most that any summary says."""
    found: dict[str, tuple[float, str]] = {}
    for summary in read_all(folder()).values():
        if summary.minutes:
            name = plan_name(summary)
            found[name] = max(found.get(name, (0.0, "")), (summary.minutes, summary.machine or ""))
    return found


class Memory(threading.Thread):
    """Watches how much memory the processes below this one hold together; what they share counts once (PSS)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.done = 0, threading.Event()

    def run(self) -> None:
        """Look twice a second."""
        while not self.done.wait(0.5):
            self.most = max(self.most, sum(map(_held, _below(os.getpid()))))


def _below(process: int) -> list[int]:
    """Children, their children and so on."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text("ascii").split()]
    except OSError:
        return []
    return [found for child in map(int, children) for found in (child, *_below(child))]


def _held(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:  # it has just ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def measured(name: str) -> tuple[float, int, int]:
    """Audit a plan: seconds of computing of all its processes, bytes of memory at most, and bytes of disk."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        command = [sys.executable, "-m", "fedleak.cli.main", "audit", str(find(name)), "--out", str(out)]
        known = set(_below(os.getpid()))  # what the estimate has left running
        quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
        os.posix_spawn(sys.executable, command, os.environ, file_actions=quiet)
        seconds, watch = 0.0, Memory()
        watch.start()
        while set(_below(os.getpid())) - known:
            _, _, used = os.wait4(-1, 0)
            seconds += used.ru_utime + used.ru_stime
        watch.done.set()
        watch.join()
        return seconds, watch.most, sum(file.stat().st_size for file in out.rglob("*") if file.is_file())


def main() -> None:
    """Print a table, a row when it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+")
    parser.add_argument("--run", action="store_true")
    chosen = parser.parse_args()
    what = "computing" if chosen.run else "clock"
    print(f"| plan | estimated, min ({what}) | took, min | ratio | memory | used | disk | used | not estimated |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    known = {} if chosen.run else recorded()
    for name in chosen.plans:
        found = estimated(name)
        if chosen.run:
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
            took, memory, disk = measured(name)
            took, ours, used, held = took / 60, found.computing / 60, data_size(disk), data_size(memory)
        else:
            took, ours = known.get(name, (float("nan"), ""))[0], found.seconds / 60
            used = held = "-"
        rest = "; ".join(what.partition(":")[0] for what in found.unknown) or "-"
        row = [f"{ours:.1f}", f"{took:.1f}", f"{ours / took:.2f}", data_size(found.memory), held]
        print(f"| {name} | {' | '.join([*row, data_size(found.disk), used, rest])} |", flush=True)


if __name__ == "__main__":
    main()
