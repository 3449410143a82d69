"""How does an active attack change the model that everyone uses?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedleak.analyses.analysis import BaseAnalysis, Numbered
from fedleak.core import format_interval, format_value
from fedleak.errors import PlanError
from fedleak.federation.utility import evaluate, metric_of
from fedleak.lazy import stats
from fedleak.pipeline import stages
from fedleak.pipeline.prepare import fitting_model
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse
from fedleak.population.prepare import prepare
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.trace.reader import Trace

__all__ = ["SideEffect"]

_POWERS = {"imprint": "imprint block", "isolate": "active server", "join": "malicious client"}


@dataclass(frozen=True, kw_only=True)
class SideEffect(BaseAnalysis):
    """Utility of the shared model round by round, with and without the active attack (Song et al., 2020, Figure 10).

    A passive attack only looks, so it is the run without.
    """

    name: ClassVar[str] = "side-effect"
    summary: ClassVar[str] = "How does an active attack change the model that everyone uses?"

    def check(self, plan: Plan) -> None:
        """Reject a plan in which nothing is done to the run."""
        if not any(getattr(plan, power) is not None for power in _POWERS):
            raise PlanError(
                "analysis 'side-effect' needs a plan with an active adversary: a table [imprint], [isolate] or [join]"
            )

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Train the same federation undisturbed, and measure both after every round."""
        quiet = self._undisturbed(plan)
        stages.train(plan, out, progress, jobs)
        stages.train(quiet, out / "analyses" / self.name, Numbered(progress, "Undisturbed: "), jobs)
        who = " and ".join(name for power, name in _POWERS.items() if getattr(plan, power) is not None)
        curves = {
            "passive (undisturbed)": self._curve(quiet, out / "analyses" / self.name),
            who: self._curve(plan, out),
        }
        every = [np.asarray(curve) for curve in curves.values()]  # (seeds, rounds)
        before, after = (curve.mean(axis=0) for curve in every)
        task = prepare(plan.dataset, plan.population, plan.seeds[0]).task
        metric = metric_of(task).name
        rounds = [float(n) for n in range(len(before))]
        tail = max(1, len(before) // 4)
        lost = _paired(every[0][:, -tail:].mean(axis=1), every[1][:, -tail:].mean(axis=1), plan.audit.level)
        rows: list[list[str | float | None]] = [
            [n, float(a), float(b), *_paired(one, other, plan.audit.level)]
            for n, a, b, one, other in zip(rounds, before, after, *(curve.T for curve in every), strict=True)
        ]
        rows.append([f"last {tail}", float(before[-tail:].mean()), float(after[-tail:].mean()), *lost])
        shaken = [float(np.abs(np.diff(curve[-tail - 1 :])).mean()) for curve in (before, after)]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                f"{metric.capitalize()} of the shared model on the test set after every round, mean over "
                f"{len(plan.seeds)} seed(s). Undisturbed, which is also what a passive attack leaves: "
                f"{format_value(float(before[-tail:].mean()))} over the last {tail} rounds; with the {who}: "
                f"{format_value(float(after[-tail:].mean()))}. The difference is {_told(*lost)}. From round to round "
                f"it changes by {format_value(shaken[0])} and {format_value(shaken[1])} there."
            ),
            columns=["round", *curves, "difference", "low", "high"],
            rows=rows,
            figures=[
                Figure(
                    kind="lines",
                    title=f"{metric.capitalize()} of the shared model by round",
                    x_label="round",
                    y_label=metric,
                    series=[
                        Series(name=name, x=rounds, y=[float(v) for v in curve])
                        for name, curve in zip(curves, (before, after), strict=True)
                    ],
                )
            ],
        )

    def _undisturbed(self, plan: Plan) -> Plan:
        change: dict[str, Any] = {
            **dict.fromkeys(_POWERS),
            "attack": [{"name": "representatives"}],
            "analysis": [],
            "defence": [],
            "game": [],
            "audit": {"adversaries": ["server"], "controls": []},
            "federation": {"centralised": False},
        }
        return parse(plan.text, plan.source, merged(plan.change, change))

    def _curve(self, plan: Plan, out: Path) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Utility after every round, from round 0: (seeds, rounds)."""
        found = []
        for run in runs(plan, out):
            if run.variant.label != "plain":
                continue
            prepared = prepare(plan.dataset, plan.population, run.seed)
            model, trace = fitting_model(plan, prepared), Trace.open(run.folder / "trace")
            found.append(
                [evaluate(model, trace.snapshot(n), prepared.test, prepared.task) for n in range(trace.rounds + 1)]
            )
        return np.asarray(found, dtype=np.float64)


def _paired(
    before: np.ndarray[Any, np.dtype[np.float64]], after: np.ndarray[Any, np.dtype[np.float64]], level: float
) -> tuple[float, float | None, float | None]:
    """The mean difference of pairs with Student's interval; one pair has none."""
    apart = after - before
    mean, n = float(apart.mean()), len(apart)
    if n < 2:
        return mean, None, None
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * apart.std(ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def _told(mean: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return f"{format_value(mean)}, without an interval, as there is one seed"
    return f"{format_interval(mean, low, high)} over the seeds"
