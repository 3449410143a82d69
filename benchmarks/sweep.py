"""A grid of 20 cells as one sweep, against the same cells one by one as commands of their own.

    python benchmarks/sweep.py [--rounds N]

Twenty strengths of two defences on the made-up people of the demo, three attacks each. One by one, every command starts
Python, reads the data, trains the undefended federation to compare with, and the one defence; it may use all cores. The
sweep trains the undefended federation once and shares the cells out. Both give the same scores, which is checked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BASE = """
title = "benchmark"
[dataset]
name = "digits"
class_bias = 5.0
[model]
name = "mlp"
[federation]
rounds = {rounds}
batch = 10
lr = 0.1
centralised = false
[audit]
controls = []
adaptive = false
[[attack]]
name = "reid-knn"
[[attack]]
name = "reid-centroid"
[[attack]]
name = "reid-labels"
"""
SIGMAS = [0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 30.0, 50.0]
ALPHAS = [0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
CELLS = [f'name = "noise"\nsigma = {sigma}\nrelative = true' for sigma in SIGMAS] + [
    f'name = "rand-aug"\nalpha = {alpha}' for alpha in ALPHAS
]


def fedleak(*arguments: str) -> float:
    """Run a command; the seconds it took."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "fedleak.cli.main", *arguments], check=True, capture_output=True)
    return time.monotonic() - started


def scores(folder: Path) -> dict[str, float]:
    """Every score of a defended run, by what it is of."""
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["scores"]
    return {json.dumps([s["attack"], s["metric"], s["defence"]]): s["value"] for s in found if s["defence"]}


def main() -> None:
    """Time both, one after the other, and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of each federation (default 60)")
    base = BASE.format(rounds=parser.parse_args().rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "grid.toml").write_text(base + "".join(f"[[defence]]\n{cell}\n" for cell in CELLS))
        together = fedleak("sweep", str(folder / "grid.toml"), "--out", str(folder / "grid"))
        print(f"one sweep of {len(CELLS)} cells      {together:7.1f} s")
        apart, each = 0.0, dict[str, float]()
        for place, cell in enumerate(CELLS):
            (folder / f"{place}.toml").write_text(f"{base}[[defence]]\n{cell}\n")
            apart += fedleak("audit", str(folder / f"{place}.toml"), "--out", str(folder / str(place)))
            each |= scores(folder / str(place))
        print(f"{len(CELLS)} commands, one by one {apart:7.1f} s")
        if each != scores(folder / "grid"):
            raise SystemExit("the two do not give the same scores")
        print(f"ratio                    {apart / together:7.2f}   (at least 2.5 is wanted; the scores are the same)")


if __name__ == "__main__":
    main()
