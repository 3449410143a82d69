"""Attack by attack: the evidence behind every verdict. Page only; the terminal has the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from markupsafe import Markup

from fedleak.report import analysis_figures, figures, formatting
from fedleak.report.section import Section
from fedleak.report.summary import GameSummary, RunSummary, game_summaries
from fedleak.results.audit import Audit, Score
from fedleak.results.detail import Detail, Figure, PerUser

__all__ = ["Attacks"]

_MOST_NAMED = 5  # users named in a table at each end; results.json has them all


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackEvidence:
    """What one attack found on one run."""

    run: RunSummary
    score: Score | None
    others: tuple[tuple[str, Score], ...]  # the other metrics, by title
    figures: tuple[tuple[Markup, str], ...]  # drawing and caption
    named: tuple[PerUser, ...]
    left_out: int
    detail: Detail | None
    tables: tuple[Mapping[str, Any], ...]


class Attacks(Section):
    """Figures and tables of every attack on every run."""

    name: ClassVar[str] = "attacks"
    link: ClassVar[str] = "Attack by attack"
    title: ClassVar[str] = "Attack by attack"
    by_unit: ClassVar[bool] = True

    def context(self, audit: Audit) -> Mapping[str, Any] | None:
        """AttackEvidence by adversary, game and attack."""
        scenes = []
        for place, scene in enumerate(game_summaries(audit)):
            best = scene.undefended.strongest(scene.metric) if scene.undefended else None
            items = [(attack, _evidence(scene, attack, f"s{place}-a{i}")) for i, attack in enumerate(scene.attacks)]
            scenes.append({"scene": scene, "best": best, "attacks": items})
        return {"scenes": scenes}


def _evidence(scene: GameSummary, attack: str, name: str) -> list[AttackEvidence]:
    control = next((_detail(run, attack, None) for run in scene.controls), None)
    found = []
    for run in scene.runs:
        score = run.score(attack, scene.metric)
        detail = _detail(run, attack, score)
        if detail is None and score is None:
            continue
        place = f"{name}-{run.key}"
        named, left_out = _named(detail)
        found.append(
            AttackEvidence(
                run=run,
                score=score,
                others=tuple(
                    (scene.metric_info(s.metric).title, s)
                    for s in run.scores
                    if s.attack == attack
                    and s.metric != scene.metric
                    and not scene.metric_info(s.metric).tabled
                    and (score is None or s.adaptive == score.adaptive)
                ),
                figures=tuple(_figures(detail, score, control, scene.measure, place)) if detail else (),
                named=named,
                left_out=left_out,
                detail=detail,
                tables=tuple(
                    {"table": table, "rows": formatting.rows(table.rows), "numeric": formatting.numeric(table.rows)}
                    for table in (detail.tables if detail else ())
                ),
            )
        )
    return found


def _detail(run: RunSummary, attack: str, score: Score | None) -> Detail | None:
    """The data of an attack's figures, from the same attack run as the score beside them."""
    known = [detail for detail in run.details if detail.attack == attack]
    return next((detail for detail in known if score is None or detail.adaptive == score.adaptive), None)


def _figures(
    detail: Detail, score: Score | None, control: Detail | None, measure: str, name: str
) -> list[tuple[Markup, str]]:
    beside = control if control is not detail else None
    drawn = [
        (
            figures.null_distribution(f"{name}-null", detail, score, measure),
            "Null distribution. Grey: scores with the identities permuted. Line and shade: the observed score and its "
            "interval.",
        ),
        (
            figures.per_user(f"{name}-users", detail, score),
            "Exposure by user. One bar per user: how reliably the attack finds their updates among all. A low mean can "
            "still hide users who are always found.",
        ),
        (
            figures.precision_recall(f"{name}-pr", detail, beside),
            "Precision of the predictions. Left: only the most confident ones; right: all of them."
            + (" Dashed: the control." if beside else ""),
        ),
        (
            figures.confusion(f"{name}-who", detail),
            "Confusion matrix of the most identifiable users (first) and the least (last). Darker: more often; on the "
            "diagonal the prediction is right.",
        ),
        (
            figures.claims(f"{name}-claims", detail),
            "Confidence of the attack where the answer is yes, and where it is no. Less overlap means a stronger "
            "attack.",
        ),
        (
            _answers(f"{name}-values", detail),
            "Confusion matrix of groups: for the users in each row's group, the share of their updates predicted as "
            "each column's group. On the diagonal the prediction is right.",
        ),
        *(
            (analysis_figures.draw_figure(f"{name}-own{i}", one), one.title)
            for i, one in enumerate(detail.figures)  # the game's own
        ),
    ]
    return [(drawing, caption) for drawing, caption in drawn if drawing is not None]


def _answers(name: str, detail: Detail) -> Markup | None:
    if not detail.values:
        return None
    values = [value.value for value in detail.values]
    drawn = Figure(
        kind="heatmap",
        title="Confusion matrix of groups",
        x_label="predicted group",
        y_label="true group",
        x_ticks=values,
        y_ticks=values,
        cells=[[*value.answered] for value in detail.values],
    )
    return analysis_figures.draw_figure(name, drawn)


def _named(detail: Detail | None) -> tuple[tuple[PerUser, ...], int]:
    """The users at both ends: the most and the least identifiable."""
    if detail is None:
        return (), 0
    users = sorted(detail.users, key=lambda user: (-user.ap, user.user))
    if len(users) <= 2 * _MOST_NAMED:
        return tuple(users), 0
    return (*users[:_MOST_NAMED], *users[-_MOST_NAMED:]), len(users) - 2 * _MOST_NAMED
