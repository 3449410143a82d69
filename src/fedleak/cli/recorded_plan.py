"""The plan that audits a recorded run, for commands that are given the run."""

from __future__ import annotations

from pathlib import Path

from fedleak.errors import PlanError
from fedleak.plan.plan import Plan
from fedleak.plan.read import load_plan

__all__ = ["plan_of_run"]


def plan_of_run(path: Path, run: Path | None = None) -> Plan:
    """Read a plan that audits a recorded run; where `run` is given, that one and no other."""
    plan = load_plan(path)
    if plan.trace is None:
        raise PlanError(
            f"{path}: has no table [trace], so it trains a federation of its own; name a plan that audits a recorded "
            "run"
        )
    if run is not None and Path(plan.trace.path).expanduser().resolve() != run.resolve():
        raise PlanError(f"{path} [trace]: names {plan.trace.path}, not {run}")
    return plan
