"""The decision: what the audit shows about each limit of the plan, in three words: shown, not shown, not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from fedleak.report import sentences, summary
from fedleak.report.formatting import format_value, interval, run_label
from fedleak.report.metrics import metric_title
from fedleak.results.audit import Audit, Score

__all__ = ["Evidence", "LimitCheck", "Decision", "decision", "deployed", "deployed_label"]

Evidence: TypeAlias = Literal["shown", "not shown", "not tested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """One limit of the plan, and what was shown about it."""

    game: str
    measure: str
    limit: float
    exceeded: Evidence
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the first page says."""

    kind: Literal["leak", "quiet", "open"]  # its colour
    text: str
    checks: tuple[LimitCheck, ...]
    where: str  # which run the limits are about
    conditions: tuple[str, ...]  # what must be read before anybody signs


def decision(audit: Audit) -> Decision:
    """Hold the scores of the deployed run against the limits; without limits there is nothing to decide."""
    checks = tuple(_checks(audit))
    exceeded = [check for check in checks if check.exceeded == "shown"]
    open_ones = [check for check in checks if check.exceeded == "not tested"]
    kind: Literal["leak", "quiet", "open"] = "open"
    if not checks:
        text = "No limits were set: no decision."
    elif exceeded:
        kind, text = "leak", f"Shown: {_many(len(exceeded), len(checks))} of the plan exceeded."
    elif open_ones:
        text = f"Not tested: {_many(len(open_ones), len(checks))} of the plan without a score. No decision."
    else:
        kind, text = "quiet", "Not shown: no limit of the plan is shown to be exceeded."
    return Decision(
        kind=kind,
        text=text,
        checks=checks,
        where=f"Limits apply to: {deployed_label(audit)}.",
        conditions=tuple(_conditions(audit)),
    )


def _many(some: int, every: int) -> str:
    return f"{some} of {every} limits" if every > 1 else "the limit"


def deployed(audit: Audit) -> dict[str, Any] | None:
    """The defence that the plan marks as deployed; None: none, so that limits are about the undefended run."""
    place, chosen = audit.resolved.get("deployed"), audit.resolved.get("defence")
    if not isinstance(place, int) or not isinstance(chosen, list) or not 0 <= place < len(chosen):
        return None
    first, *also = chosen[place]
    return {**first, "also": also} if also else dict(first)


def deployed_label(audit: Audit) -> str:
    """The deployed run in words."""
    defence = deployed(audit)
    if defence is not None:
        return f"the deployed defence, {run_label(defence, None)}"
    return "the recorded run" if "trace" in audit.resolved else "the run without a defence"


def _checks(audit: Audit) -> list[LimitCheck]:
    limits = audit.resolved.get("limits")
    found = [
        LimitCheck(
            game="epsilon",
            measure=f"epsilon spent, {budget.unit} level",
            limit=budget.limit,
            exceeded="shown"
            if budget.exceeded and budget.spent is not None
            else "not tested"
            if budget.exceeded
            else "not shown",
            sentence=budget.text,
        )
        for budget in audit.budgets
    ]
    for game, metrics in limits.items() if isinstance(limits, Mapping) else ():
        if game == "epsilon":
            continue
        for metric, limit in metrics.items():
            here = [s for s in audit.scores if _is(s, game) and s.metric == metric and s.limit is not None]
            found.append(_check(audit, game, metric, float(limit), here))
    return found


def _is(score: Score, game: str) -> bool:
    """Whether a score is of this game, which has its settings in its name where the plan has it twice."""
    return score.game == game or score.game.startswith(f"{game} (")


def _check(audit: Audit, game: str, metric: str, limit: float, scores: Sequence[Score]) -> LimitCheck:
    over = [score for score in scores if score.exceeded]
    worst = max(over or scores, key=lambda score: (score.low, score.value), default=None)
    measure = metric_title(audit, worst.game if worst else game, metric)
    state: Evidence = "shown" if over else "not shown" if scores else "not tested"
    if worst is None:
        said = "no attack was scored"
    else:
        said = f"{interval(worst)} by {worst.attack} as {worst.adversary}, chance {format_value(worst.chance)}"
        if not over and worst.high > limit:
            said += "; the interval reaches above the limit, so a larger test could still show it"
    return LimitCheck(game=game, measure=measure, limit=limit, exceeded=state, sentence=said)


def _conditions(audit: Audit) -> list[str]:
    """Warnings, failures, contradicted statements and attacks that are missing."""
    contradicted = [
        f"{run_label(given.defence, None)}: canaries contradict the stated epsilon of {promise.defence}."
        for given in audit.promises
        for promise in given.promises
        if promise.contradicted
    ]
    missing = [
        f"{scene.adversary}, {scene.game}: {said}"
        for scene in summary.game_summaries(audit)
        if (said := sentences.not_run(scene))
    ]
    return [*audit.warnings, *contradicted, *missing, *(f"Failed: {line}" for line in summary.failed(audit))]
