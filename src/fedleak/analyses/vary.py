"""What if one setting of the plan were different? Every attack over the values of one key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import BaseAnalysis, Numbered, closing, measured, play, trained, vary
from fedleak.analyses.curves import Point, curve, format_measured, line, numbers
from fedleak.errors import DataError, PlanError, did_you_mean
from fedleak.metrics.metric import Metric
from fedleak.pipeline.prepare import fitting_model
from fedleak.pipeline.runs import digest, facts, runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.checks import refuse_twice
from fedleak.plan.plan import Plan
from fedleak.population.prepare import prepare
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.score.labels import label
from fedleak.score.score import Measured

__all__ = ["Vary"]

TABLES = ("dataset", "population", "model", "federation", "inject")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One value of the key: what was measured of every attack, and how good the model was."""

    value: Any
    scores: dict[tuple[str, Metric, str], Measured]  # (game, metric, attack)
    utility: list[float]  # by seed
    mean: float  # of the utility
    metric: str  # of the utility


@dataclass(frozen=True, kw_only=True)
class Vary(BaseAnalysis):
    """Train the federation again for every value of one key of the plan, and run all its attacks on each."""

    name: ClassVar[str] = "vary"
    summary: ClassVar[str] = "What if one setting of the plan were different?"

    key: Annotated[str, Meta(description="a key of the plan with its table, for instance dataset.insertions")]
    values: Annotated[
        tuple[int | float | bool | str, ...], Meta(min_length=1, description="what it is set to, each in turn")
    ]
    metrics: Annotated[
        tuple[str, ...],
        Meta(description="what to draw; the first metric of every game, and its first distance, if empty"),
    ] = ()

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Train and attack what is missing, one value after the other; the plan's own value is its own federation."""
        plans = [self._changed(plan, value) for value in self.values]
        trained(plan, out, progress, jobs)
        tried = []
        for place, (value, changed) in enumerate(zip(self.values, plans, strict=True), 1):
            named = Numbered(progress, f"{place}/{len(plans)}, {self.key} = {value}: ")
            own = changed.trained == plan.trained
            folder = out if own else out / "analyses" / self.name / f"{self.key}-{_spelt(value)}"
            tried.append(self._try(changed, value, folder, named, jobs))
        columns = [self.key, "attack", "metric", "value", "low", "high", "chance", "users", tried[0].metric]
        return Analysis(
            name=self.name,
            title=f"What if {self.key} were different?",
            text=self._text(plan, tried),
            columns=columns,
            rows=[
                [_shown(one.value), attack, metric.title, *numbers(found)[:4], found.users, one.mean]
                for one in tried
                for (game, metric, attack), found in one.scores.items()
            ],
            figures=self._figures(tried),
        )

    def check(self, plan: Plan) -> None:
        """Reject an impossible value, key or metric before anything is trained."""
        refuse_twice(list(self.values), f"analysis 'vary', {self.key}")
        known = [metric.name for game in plan.games for metric in game.metrics]
        for metric in self.metrics:
            if metric not in known:
                raise PlanError(
                    f"analysis 'vary': no game of this plan has a metric '{metric}'{did_you_mean(metric, known)}"
                )
        for value in self.values:
            self._changed(plan, value, tried=True)

    def _changed(self, plan: Plan, value: Any, *, tried: bool = False) -> Plan:
        """The plan with one of the values; `tried` on its data and model."""
        where = f"analysis 'vary', {self.key} = {value!r}"
        table, _, key = self.key.partition(".")
        if table not in TABLES:
            raise PlanError(f"{where}: expected table.key, where the table is one of {', '.join(TABLES)}")
        known = plan.resolved.get(table) or {}
        if key not in known:
            raise PlanError(f"{where}: [{table}] of this plan has no key '{key}'{did_you_mean(key, known)}")
        if known[key] == value:
            return vary(plan, attacks=plan.attacks, games=plan.games)
        try:
            changed = vary(plan, attacks=plan.attacks, games=plan.games, tables={table: {key: value}})
            if tried:
                users = prepare(changed.dataset, changed.population, plan.seeds[0], inject=changed.inject)
                fitting_model(changed, users)
        except (PlanError, DataError) as error:
            raise type(error)(f"{where}: {error}") from error
        return changed

    def _try(self, plan: Plan, value: Any, folder: Path, progress: Progress, jobs: int | None) -> _Tried:
        """Measure every attack on the federation of one value, as the first adversary who can play it."""
        scores: dict[tuple[str, Metric, str], Measured] = {}
        for (attack, game, _), claims in zip(plan.plays, play(plan, folder, progress, jobs), strict=True):
            distances = [metric for metric in game.metrics if metric.lower_leaks]
            first = [metric.name for metric in (game.metrics[0], *distances[:1])]
            for metric in game.metrics:
                place = (label(game, plan.games), metric, label(attack, plan.attacks))
                wanted = metric.name in (self.metrics or first)
                if wanted and place not in scores and metric.applies(claims) is True:
                    scores[place] = measured(plan, claims, metric)
        every = [found for run in runs(plan, folder) if (found := facts(run)) is not None]
        utility = [found.utility for found in every if found.utility is not None]
        mean = float(np.mean(utility))
        return _Tried(value=value, scores=scores, utility=utility, mean=mean, metric=every[0].utility_metric)

    def _text(self, plan: Plan, tried: Sequence[_Tried]) -> str:
        first, last = tried[0], tried[-1]
        ends = [
            f"{attack}, {metric.title}: {format_measured(first.scores[place])} at {_shown(first.value)}"
            + (f", {format_measured(last.scores[place])} at {_shown(last.value)}" if place in last.scores else "")
            for place in first.scores
            for _, metric, attack in [place]
            if not metric.lower_leaks  # they go the same way, and are in the table
        ]
        values = ", ".join(_shown(one.value) for one in tried)
        return (
            f"The federation is trained again with {self.key} = {values}, all else as in the plan, and every "
            f"attack is run on each. {'; '.join(ends)}. {closing(plan)}"
        )

    def _figures(self, tried: Sequence[_Tried]) -> list[Figure]:
        numeric = all(isinstance(one.value, (int, float)) and not isinstance(one.value, bool) for one in tried)
        x = [float(one.value) if numeric else float(place) for place, one in enumerate(tried)]
        axis: dict[str, Any] = {
            "kind": "lines" if numeric else "bars",
            "x_label": self.key,
            "x_ticks": None if numeric else [_shown(one.value) for one in tried],
            "log_x": numeric and min(x) > 0 and max(x) / min(x) >= 8,
        }
        figures = []
        for game, metric in dict.fromkeys(place[:2] for one in tried for place in one.scores):
            here = [
                {place[2]: found for place, found in one.scores.items() if place[:2] == (game, metric)} for one in tried
            ]
            lines = []
            for attack in dict.fromkeys(name for found in here for name in found):
                points = [
                    Point(at, _shown(one.value), found[attack])
                    for at, one, found in zip(x, tried, here, strict=True)
                    if attack in found
                ]
                lines.append(curve(attack, points)[0])
            # One level for all attacks, the one that is hardest to beat; the table has that of each.
            word, hardest = ("lowest", min) if metric.lower_leaks else ("highest", max)
            levels = [
                (at, hardest(m.chance for m in found.values())) for at, found in zip(x, here, strict=True) if found
            ]
            lines.append(
                Series(
                    name="chance" if len(lines) == 1 else f"{word} chance of these",
                    x=[at for at, _ in levels],
                    y=[level for _, level in levels],
                    reference=True,
                )
            )
            name = metric.title
            title = f"{name[:1].upper()}{name[1:]} over {self.key}"
            figures.append(Figure(title=title, y_label=name, series=lines, **axis))
        spread = [(at, one.mean, min(one.utility), max(one.utility)) for at, one in zip(x, tried, strict=True)]
        title, utility = f"Utility over {self.key}: the mean over seeds, and their range", tried[0].metric
        return [*figures, Figure(title=title, y_label=utility, series=[line(utility, spread)], **axis)]


def _shown(value: Any) -> str:
    """A value as a plan writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _spelt(value: Any) -> str:
    """A value as the name of a folder."""
    text = _shown(value)
    return text if re.fullmatch(r"[\w+-][\w.+-]{0,40}", text) else digest(value)[:12]
