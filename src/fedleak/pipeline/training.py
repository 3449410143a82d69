"""Train one run of an audit: prepare its data and clients, train its rounds, and measure the result."""

from __future__ import annotations

from pathlib import Path

from fedleak.pipeline.evaluate import evaluate_run
from fedleak.pipeline.jobs import Tick, deserialise_plan
from fedleak.pipeline.overlay import overlay_run
from fedleak.pipeline.prepare import lacks, prepare_run
from fedleak.pipeline.record import record_run
from fedleak.pipeline.runs import Run, facts, runs
from fedleak.plan.plan import Plan
from fedleak.trace.lock import locked

__all__ = ["train_run", "train_job"]


def train_run(plan: Plan, run: Run, tick: Tick, workers: int = 1) -> None:
    """Train a federation and record it, or read a recorded one, resuming an earlier attempt."""
    # Wait, because workers of a killed command notice its end only after their current round.
    with locked(run.folder, patience=30):
        if facts(run) is not None:
            if lacks(plan, run):
                prepare_run(plan, run)
                tick(plan.federation.rounds)
            return
        if plan.trace is not None:
            overlay_run(plan, run, tick, workers)
            return
        ready = prepare_run(plan, run)
        clock = record_run(plan, run, ready, tick, workers)
        evaluate_run(plan, run, ready, clock).save(run.folder)


def train_job(text: str, change: bytes, out: str, index: int, workers: int, tick: Tick) -> None:
    """Train one run, in a worker process."""
    plan = deserialise_plan(text, change)
    train_run(plan, runs(plan, Path(out))[index], tick, workers)
