"""Run the plan behind summaries and write down what it gives now."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

import fedleak
from fedleak import registry
from fedleak.analyses.analysis import analyse, check
from fedleak.errors import FedleakError
from fedleak.pipeline import stages
from fedleak.pipeline.stages import Progress
from fedleak.pipeline.sweep import sweep
from fedleak.plan import shipped
from fedleak.plan.configure import configure, to_dict
from fedleak.plan.plan import Plan
from fedleak.plan.read import load_plan
from fedleak.report import results_file
from fedleak.reproduce.lookup import measured
from fedleak.reproduce.summary import Figure, Summary, plan_sha256

__all__ = ["Moved", "carried", "measure", "moved"]

# Of figures without an interval. Figures with one are compared with it.
TOLERANCE = 0.02

Moved = dict[str, tuple[float, float]]


def measure(
    summaries: Mapping[str, Summary], name: str, full: bool, out: Path, progress: Progress, jobs: int | None = None
) -> dict[str, Summary]:
    """Audit one plan, or finish auditing it, and return its summaries with the figures of now."""
    plan = load_plan(shipped.folder() / f"{name}.toml", full=full)
    check(plan)
    hows = {summary.how for summary in summaries.values()}
    if "sweep" in hows:
        failures = sweep(plan, out, progress, jobs).failures
        if failures:
            raise FedleakError(
                f"{name}: {len(failures)} cells of the sweep failed, the first with: {failures[0].why}; mend the "
                "cause and rerun the same command"
            )
    elif "audit" in hows:
        stages.audit(plan, out, progress, jobs)
    if hows & {"sweep", "audit"}:
        for look in plan.analyses:
            analyse(look, plan, out, progress, jobs)
    found = {}
    for stem, summary in summaries.items():
        if summary.how == "analyse":
            _analyse(summary, plan, out, progress, jobs)
        result = results_file.read_results(out)
        try:
            figures = [measured(figure, result) for figure in summary.figures if figure.source is not None]
        except FedleakError as error:
            raise FedleakError(f"{stem}.json: {error}") from error
        if not figures:
            raise FedleakError(f"{stem}.json: no figure says which score it is; add `from`, as in the other summaries")
        found[stem] = carried(
            summary,
            msgspec.structs.replace(
                summary,
                figures=figures,
                plan_sha256=plan_sha256(name),
                fedleak=fedleak.__version__,
                commit=_commit(),
                seeds=list(plan.seeds),
                minutes=round(_seconds(out) / 60, 1),
                machine=_machine(),
                older="",
            ),
        )
    return found


def _analyse(summary: Summary, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> None:
    """Run the analysis that a summary's figures are of, with the plan's settings and the summary's own."""
    named = {figure.source.analysis for figure in summary.figures if figure.source is not None}
    for name in sorted(named - {""}):
        planned = next((to_dict(one) for one in plan.analyses if to_dict(one)["name"] == name), {})
        settings = {key: value for key, value in planned.items() if key != "name"} | summary.settings
        look = configure(registry.load("analysis", name), settings, f"analysis {name} of {summary.row}")
        analyse(look, plan, out, progress, jobs)


def carried(before: Summary, now: Summary) -> Summary:
    """Keep a verdict only while the figures that it was given for stand: a verdict is a person's, not a program's."""
    if before.verdict is None:
        return now
    changes = moved(before, now)
    if not changes:
        return now
    told = ", ".join(f"{name} {old:.3g} -> {new:.3g}" for name, (old, new) in changes.items())
    return msgspec.structs.replace(
        now, verdict=None, why=f"Judge again: it was '{before.verdict}', but figures have moved since ({told})."
    )


def moved(before: Summary, now: Summary) -> Moved:
    """Figures that lie outside the interval they had before, with a small tolerance: before and now."""
    old = {figure.name: figure for figure in before.figures}
    pairs = [(old[figure.name], figure) for figure in now.figures if figure.name in old]
    return {
        one.name: (one.value, two.value)
        for one, two in pairs
        if one.value is not None and two.value is not None and not _within(one, two.value)
    }


def _within(before: Figure, now: float) -> bool:
    assert before.value is not None
    low = before.low if before.low is not None else before.value
    high = before.high if before.high is not None else before.value
    return low - TOLERANCE <= now <= high + TOLERANCE


def _seconds(out: Path) -> float:
    """All the time spent in a folder, interrupted attempts and the runs of analyses included."""
    return sum(float(json.loads(path.read_bytes()).get("seconds", 0)) for path in out.rglob("audit.json"))


def _commit() -> str | None:
    """The commit of the source tree, marked where sources or plans differ from it; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        changed = bool(git("status", "--porcelain", "--", "src", "plans").strip())
        return git("rev-parse", "--short", "HEAD").strip() + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _machine() -> str:
    """What the last digits and the minutes depend on."""
    import torch

    kind, cores = torch.backends.cpu.get_cpu_capability(), os.cpu_count() or 1
    busy = ", busy" if os.getloadavg()[1] > 1.5 * cores else ""
    return f"{cores} cores, {platform.machine()}, {kind}, torch {torch.__version__}{busy}"
