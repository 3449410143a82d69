"""What it costs to run an attack in a confined process instead of the process of the audit.

    python benchmarks/isolation.py [--turns N] [--out FOLDER]

Trains the undefended federation of plans/demo.toml and runs each of its attacks in both ways, in turns. CPU seconds are
those of all processes that take part; the first confined attack also pays for starting the process that forks them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedleak.attacks.context import AttackContext
from fedleak.core import rng_for
from fedleak.pipeline import stages
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import runs
from fedleak.plan.plan import Plan
from fedleak.plan.read import parse
from fedleak.sandbox.fork_server import single_threaded
from fedleak.sandbox.process import Budget, attack_in_process

PLAN = Path(__file__).parents[1] / "plans" / "demo.toml"


class Silent:
    """Progress that nobody watches."""

    def stage(self, text: str, units: float) -> None: ...

    def tick(self, units: float) -> None: ...


def main() -> None:
    """Print one line for each attack."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    change = {"seeds": [0], "defence": [], "audit": {"controls": []}}
    plan = parse(PLAN.read_text(encoding="utf-8"), str(PLAN), change)
    single_threaded()
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder)
        stages.train(plan, out, Silent(), 1)
        started = time.perf_counter()
        confined(plan, out, 0)
        print(f"first confined attack: {time.perf_counter() - started:.1f} s")
        print("| attack | here, CPU s | confined, CPU s | ratio |")
        print("| --- | ---: | ---: | ---: |")
        for number, (attack, _, _) in enumerate(plan.plays):
            turns = [(here(plan, out, number), confined(plan, out, number)) for _ in range(given.turns)]
            one, other = (statistics.median(column) for column in zip(*turns, strict=True))
            ratio = statistics.median(after / before for before, after in turns)
            print(f"| {attack.name} | {one:.2f} | {other:.2f} | {ratio:.2f} |")


def here(plan: Plan, out: Path, number: int) -> float:
    """The attack in this process."""
    began = time.process_time()
    [run] = runs(plan, out)
    attack, game, adversary = plan.plays[number]
    given = build_questions(run, game)
    view, questions = given.look(run.folder / "trace", adversary)
    claims: Any = attack.run(view, given.prior, questions, AttackContext(rng_for(0, "attack")))
    assert np.isfinite(claims).all()
    return time.process_time() - began


def confined(plan: Plan, out: Path, number: int) -> float:
    """The attack in a confined process."""
    began = time.process_time()
    [run] = runs(plan, out)
    attack, game, adversary = plan.plays[number]
    given = build_questions(run, game)
    view, questions = given.look(run.folder / "trace", adversary)
    done = attack_in_process(attack, view, given.prior, questions, 0, run.folder, Budget(), lambda share: None)
    return time.process_time() - began + done.seconds


if __name__ == "__main__":
    main()
