"""Cost and strength of the re-identification attacks on real writers, with and without a bound on memory.

    python benchmarks/attack.py [--full] [--out FOLDER]

Trains the setting of plans/mnist-writers.toml at 40 and 100 writers (with --full 300 too) and plays, each in a process
of its own, every attack as a plan would; then reid-mlp and reid-svm once more with the layer sketched to a small
budget, and once in the naive way, with every update in memory, to which the ratios are. Data is found as the product
finds it ($FEDLEAK_DATA).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.attacks import features as layer_features
from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.mlp import ReidMlp
from fedleak.attacks.deanonymize.strong import Strong
from fedleak.attacks.deanonymize.svm import LinearSvm
from fedleak.core import FloatArray, IntArray, rng_for
from fedleak.games.identify import Identify
from fedleak.metrics.permutation import average_precision, top
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.sandbox.fork_server import single_threaded
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View

PLAN = Path(__file__).parents[1] / "plans" / "mnist-writers.toml"
ATTACKS: dict[str, Any] = {"reid-mlp": ReidMlp(layer="fc"), "reid-svm": LinearSvm(layer="fc"), "reid-strong": Strong()}
BUDGET = 2000  # MB, the default of a plan
SMALL = 64


class Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None:
        print(text, file=sys.stderr)

    def tick(self, units: float) -> None: ...


def naive(view: View, layer: str, wanted: IntArray, reduce: Any, dims: int) -> FloatArray:
    """Read every layer of every update into memory before looking at one."""
    tables = {part.name: np.array(view.updates.layer(part.name)) for part in view.layout}
    return np.asarray(reduce(tables[layer][wanted]), dtype=np.float32)


def peak() -> float:
    """MB that this process held at most.

    Not getrusage's ru_maxrss: a process inherits the peak of the one that started it, which has trained a federation.
    """
    status = Path("/proc/self/status").read_text()
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


def setting(users: int) -> Plan:
    change = {
        "seeds": [0],
        "population": {"users": users},
        "federation": {"centralised": False},
        "audit": {"controls": []},
        "defence": [],
    }
    return parse(PLAN.read_text(), str(PLAN), change)


def measure(users: int, out: Path, attack: str, way: str) -> dict[str, float]:
    """Play one attack in this process."""
    single_threaded()
    run = replace(runs(setting(users), out)[0], memory=SMALL if way == "sketch" else BUDGET)
    if way == "naive":
        layer_features.stream_rows = naive
    before = peak()
    started, cpu = time.monotonic(), time.process_time()
    # In this process, whose memory is measured; `benchmarks/isolation.py` has what confinement adds.
    given = build_questions(run, Identify())
    view, questions = given.look(run.folder / "trace", ANONYMOUS_SERVER)
    context = AttackContext(rng_for(run.seed, "attack"), memory=run.memory)
    claims = ATTACKS[attack].run(view, given.prior, questions, context)
    right = given.answers.right
    return {
        "seconds": time.monotonic() - started,
        "cpu": time.process_time() - cpu,
        "mb": peak() - before,
        "ap": average_precision(claims, right).value,
        "top1": top(claims, right, 1).value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="300 writers too")
    parser.add_argument("--out", type=Path, help="keep the trained federations here")
    parser.add_argument("--only", nargs=3, metavar=("USERS", "ATTACK", "WAY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="fedleak-attack-"))
    if given.only:
        users, attack, way = given.only
        print(json.dumps(measure(int(users), out / users, attack, way)))
        return
    print("writers attack       updates       AP  top-1  seconds   CPU s    +MB  x CPU   x MB")
    for users in (40, 100, 300) if given.full else (40, 100):
        stages.train(setting(users), out / str(users), Silent(), 1)
        for attack in ATTACKS:
            found = {}
            for way in ("streamed",) if attack == "reid-strong" else ("naive", "streamed", "sketch"):
                command = [sys.executable, __file__, "--out", str(out), "--only", str(users), attack, way]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found[way] = one = json.loads(done.stdout)
                naive_one = found.get("naive")
                ratios = [f"{naive_one[of] / one[of]:6.2f}" if naive_one else "     -" for of in ("cpu", "mb")]
                print(
                    f"{users:7} {attack:12} {way:9} {one['ap']:6.3f} {one['top1']:6.3f} {one['seconds']:8.1f} "
                    f"{one['cpu']:7.1f} {one['mb']:6.0f} {' '.join(ratios)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
