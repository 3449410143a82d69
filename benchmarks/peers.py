"""Gradient inversion beside breaching and LeakPro: the same digits, weights and updates.

    python benchmarks/peers.py --peers DIR --sources breaching=PATH leakpro=PATH

Each peer has an environment of its own in DIR (DIR/breaching, DIR/leakpro), made if absent; `--sources` are checkouts
of their repositories (their addresses are printed where one is missing). Contestants take turns, seed by seed, one
thread each. Peers are told the labels of every mini-batch in order; Fedleak is told the label counts only, and has
public digits of other people; a further line gives it what peers are told and no public digits. Before it attacks, a
peer must make the client's update of the true examples by its own training code.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import venv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from inversion import CASES, MODEL, Sent, invert, sent

from fedleak.attacks.recover.gradient_inversion import GradientInversion
from fedleak.core import FloatArray
from fedleak.metrics.recovery import assigned

HERE = Path(__file__).parent / "contestants"
ADDRESSES = {
    "breaching": "https://github.com/JonasGeiping/breaching",
    "leakpro": "https://github.com/aidotse/LeakPro",
}
# What the parts that are called import; all that a peer's own list asks for is several gigabytes.
REQUIRED = {
    "breaching": ["torch", "torchvision", "numpy", "scipy", "hydra-core"],
    "leakpro": [
        *("torch", "torchvision", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "dotmap", "jinja2", "tqdm"),
        *("joblib", "pyyaml", "scikit-learn", "pydantic", "torchmetrics", "pytorch-ignite", "optuna", "transformers"),
    ],
}
SCRIPTS = {"breaching": "breaching_peer.py", "leakpro": "leakpro_peer.py"}


def prepare(name: str, peers: Path, sources: dict[str, Path]) -> str:
    """Why a peer cannot be measured; empty if it can."""
    source = sources.get(name)
    if source is None or not source.is_dir():
        return f"no checkout: clone {ADDRESSES[name]} and give --sources {name}=PATH"
    python = peers / name / "bin/python"
    if not python.exists():
        venv.create(peers / name, with_pip=True)
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *REQUIRED[name]], capture_output=True, text=True
        )
        if done.returncode:
            return f"cannot be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}"
    return ""


def version(source: Path) -> str:
    """The commit of a checkout."""
    done = subprocess.run(["git", "-C", str(source), "log", "-1", "--format=%h of %cs"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown commit"


def write(one: Sent, path: Path) -> None:
    """The job of contestants/inversion_job.py, with examples in the order in which the client saw them."""
    order = one.order[0]
    tensors: dict[str, Any] = {}
    for layer in MODEL.layout:
        for tensor, shape in layer.tensors:
            tensors[f"w/{layer.name}.{tensor}"] = one.start[layer.name][layer.span(tensor)].reshape(shape)
            tensors[f"u/{layer.name}.{tensor}"] = one.update[layer.name][0, layer.span(tensor)].reshape(shape)
    np.savez(
        path,
        labels=np.asarray(one.data.y)[order].astype(np.int64),
        images=one.data.x[order],
        batch=one.plan.batch,
        epochs=one.plan.epochs,
        lr=one.plan.lr,
        **tensors,
    )


def run(name: str, peers: Path, source: Path, arguments: list[str], limit: float) -> tuple[dict[str, Any] | None, str]:
    """One process of a peer: what it printed, or why there is nothing."""
    python = str(peers / name / "bin/python")
    paths = f"{source}{os.pathsep}{HERE}"
    with tempfile.TemporaryDirectory() as folder:  # peers write logs and results where they are started
        try:
            done = subprocess.run(
                [python, str(HERE / SCRIPTS[name]), *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return None, f"not done in {limit:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        return None, (done.stderr.strip().splitlines() or ["no result"])[-1]
    return json.loads(lines[-1][7:]), ""


def inversion(options: argparse.Namespace, sources: dict[str, Path]) -> None:
    """Print one table: PSNR by case and contestant, and CPU seconds a client."""
    missing = {name: prepare(name, options.peers, sources) for name in SCRIPTS}
    for name, why in missing.items():
        print(f"{name}: {why or version(sources[name])}", flush=True)
    print("| case | contestant | PSNR | by seed | CPU s |\n| --- | --- | ---: | --- | ---: |")
    for case in options.cases:
        noise: dict[str, list[float]] = defaultdict(list)
        spent: dict[str, list[float]] = defaultdict(list)
        failed: dict[str, str] = {}

        def add(who: str, images: FloatArray, real: FloatArray, seconds: float) -> None:
            noise[who].append(float(assigned(images, real).psnr.mean()))  # noqa: B023
            spent[who].append(seconds)  # noqa: B023

        for seed in options.seeds:
            one = sent(CASES[case], seed)
            if CASES[case].epochs > 1 and CASES[case].batch < CASES[case].size:
                raise SystemExit(f"{case}: peers do not shuffle between epochs, so their update would be another one")
            for who, images, told in (
                ("fedleak", "public", False),
                ("fedleak, told what peers are, no public digits", "smooth", True),
            ):
                found, seconds = invert(one, GradientInversion(images=images), seed, orders=told, labels=True)  # type: ignore[arg-type]
                add(who, found, one.data.x, seconds)
            with tempfile.TemporaryDirectory() as folder:
                job, output = Path(folder) / "job.npz", Path(folder) / "images.npy"
                write(one, job)
                for name in (name for name, why in missing.items() if not why and name not in failed):
                    arguments = [str(job), str(output), str(options.iterations), str(seed)]
                    result, why = run(name, options.peers, sources[name], arguments, options.limit)
                    if result is None:
                        failed[name] = why
                        continue
                    add(f"{name} (torch {result['torch']})", np.load(output), one.data.x, result["cpu"])
                    chosen = output.with_suffix(".chosen.npy")
                    if chosen.exists():
                        add(f"{name}, chosen by likeness to the truth", np.load(chosen), one.data.x, result["cpu"])
        for who, values in noise.items():
            by_seed = ", ".join(f"{value:.1f}" for value in values)
            print(
                f"| {case} | {who} | {statistics.mean(values):.1f} | {by_seed} | {statistics.mean(spent[who]):.0f} |",
                flush=True,
            )
        for name, why in failed.items():
            print(f"| {case} | {name} | failed: {why} | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, help="folder of the peers' environments, made if absent")
    parser.add_argument("--sources", nargs="*", default=[], metavar="NAME=PATH", help="checkouts of the peers")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:4])
    parser.add_argument("--iterations", type=int, default=8000, help="of the peers")
    parser.add_argument("--limit", type=float, default=1800, help="seconds after which a process is ended")
    options = parser.parse_args()
    options.peers = options.peers.resolve()
    sources = {name: Path(path).resolve() for name, path in (given.split("=", 1) for given in options.sources)}
    inversion(options, sources)


if __name__ == "__main__":
    main()
