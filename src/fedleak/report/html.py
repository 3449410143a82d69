"""One self-contained HTML page: verdicts first, then the evidence, then everything needed to repeat it.

The page uses no network, no script and no font but the reader's own; its content security policy says so to the
browser. Names and plans come from outside and are escaped wherever they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup

from fedleak.report import (
    analysis_figures,
    figures,
    formatting,
    linkability_figure,
    metrics,
    sentences,
    summary,
    tradeoff,
)
from fedleak.report.summary import GameSummary, RunSummary, game_summaries
from fedleak.score.defence_results import Effect, Promise
from fedleak.score.records import PLACES
from fedleak.score.result import Analysis, Audit, Detail, Figure, Grid, PerRecord, PerUser, PerValue, Quality, Score
from fedleak.trace.files import private_folder, write_atomic

__all__ = ["write", "render"]

_MOST_NAMED = 5  # users named in a table at each end; results.json has them all
_MOST_RECORDS = 40  # users in the table of secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one attack found on one run."""

    run: RunSummary
    score: Score | None
    others: tuple[Score, ...]  # the other metrics
    figures: tuple[tuple[Markup, str], ...]  # drawing and caption
    named: tuple[PerUser, ...]
    left_out: int
    values: tuple[PerValue, ...]
    guesses: tuple[tuple[int, Score, Score], ...]  # how many; the share of secrets among them; the smallest distance
    records: tuple[PerRecord, ...]
    quality: tuple[Quality, ...]
    grids: tuple[Grid, ...]


def write(audit: Audit, path: Path) -> Path:
    """Write the page whole or not at all, readable by its owner only: it names users."""
    page = render(audit)
    path = Path(path)
    private_folder(path.parent)
    write_atomic(path, page.encode("utf-8"))
    return path


def render(audit: Audit) -> str:
    """Draw the page; the same audit always gives the same text."""
    environment = _environment()
    told = game_summaries(audit)
    return environment.get_template("report.html").render(
        audit=audit,
        scenes=[
            {
                **_scene(scene, f"s{position}", audit),
                # What an adversary sees needs saying once, however many games it plays.
                "introduced": scene.adversary in {before.adversary for before in told[:position]},
            }
            for position, scene in enumerate(told)
        ],
        analyses=[_analysis(analysis, f"n{position}") for position, analysis in enumerate(audit.analyses)],
        metrics=metrics.definitions(audit.scores),
        controls=metrics.control_definitions(audit.scores),
        exceeded=summary.over_limit(audit.scores),
        failures=summary.failed(audit),
        changes=_changes(audit),
        price_columns=tradeoff.COLUMNS,
        resolved=msgspec.json.format(msgspec.json.encode(audit.resolved), indent=2).decode(),
        style=Markup(environment.get_template("style.css").render()),  # our own file, never an audit's words
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fedleak.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # A name must not reach the page with characters that a browser acts on instead of showing.
        finalize=lambda value: (
            value if isinstance(value, Markup) or not isinstance(value, str) else formatting.printable(value)
        ),
    )
    environment.filters.update(
        number=formatting.format_value,
        percent=formatting.percent,
        times=formatting.times,
        interval=formatting.interval,
        setting=formatting.setting,
        most=lambda rows: rows[:_MOST_RECORDS],
        metric=lambda score: metrics.metric_name(score.metric, score.game),
        spaced=lambda name: str(name).replace("_", " "),
    )
    return environment


def _scene(scene: GameSummary, name: str, audit: Audit) -> Mapping[str, Any]:
    """Everything the template says about one adversary and one game."""
    best = scene.undefended.strongest(scene.metric) if scene.undefended else None
    held, control = summary.control_held(scene)
    weighed = next((t for t in audit.tradeoffs if (t.adversary, t.game) == (scene.adversary, scene.game)), None)
    utility = next((run.utility for run in scene.runs if run.utility is not None), None)
    return {
        "name": name,
        "scene": scene,
        "best": best,
        "big": sentences.big(scene.undefended, best) if best and scene.undefended else "",
        "columns": sentences.columns(scene),
        "leaks": summary.leaks,
        "verdict": summary.verdict,
        "found": sentences.found(scene.undefended, scene.metric) if scene.undefended else "",
        "utility": utility,
        "higher_is_better": utility is None or utility.higher_is_better,
        "control_held": held,
        "control": control,
        "helped": [(run, summary.helped(scene, run)) for run in scene.defended],
        "weighed": weighed,
        "trade_off": analysis_figures.draw(f"{name}-trade", tradeoff.figure(weighed)) if weighed else None,
        "prices": tradeoff.rows(weighed) if weighed else [],
        "gaps": analysis_figures.draw(f"{name}-gaps", apart) if (apart := linkability_figure.figure(scene)) else None,
        "comparison": figures.comparison(f"{name}-compare", scene),
        "attacks": [(attack, _evidence(scene, attack, f"{name}-a{i}")) for i, attack in enumerate(scene.attacks)],
    }


def _changes(audit: Audit) -> list[tuple[Effect, str, list[tuple[Promise, str]]]]:
    """What each defence changes and promises."""
    given = {formatting.run_label(one.defence, None): one.promises for one in audit.promises}
    return [
        (
            one,
            tradeoff.changes(one),
            [
                (promise, tradeoff.promise(promise))
                for promise in given.get(formatting.run_label(one.defence, None), [])
            ],
        )
        for one in audit.effects
    ]


def _evidence(scene: GameSummary, attack: str, name: str) -> list[Evidence]:
    control = next((_detail(run, attack, None) for run in scene.controls), None)
    found = []
    for run in scene.runs:
        score = run.score(attack, scene.metric)
        detail = _detail(run, attack, score)
        if detail is None and score is None:
            continue
        drawn = [] if detail is None else _figures(detail, score, control, f"{name}-{run.key}")
        named, left_out = _named(detail)
        guesses = _guesses(run, score)
        told = {part.metric for _, *parts in guesses for part in parts}
        found.append(
            Evidence(
                run=run,
                score=score,
                others=tuple(
                    s
                    for s in run.scores
                    if s.attack == attack
                    and s.metric not in (scene.metric, *told)
                    and (score is None or s.adaptive == score.adaptive)
                ),
                figures=tuple(drawn),
                named=named,
                left_out=left_out,
                values=tuple(detail.values) if detail else (),
                guesses=guesses,
                records=tuple(detail.records) if detail else (),
                quality=tuple(detail.quality) if detail else (),
                grids=tuple(detail.grids) if detail else (),
            )
        )
    return found


def _guesses(run: RunSummary, score: Score | None) -> tuple[tuple[int, Score, Score], ...]:
    """Where records are asked for: what 1, 5, ... guesses come to."""
    if score is None:
        return ()
    pairs = ((k, run.beside(score, f"top{k}"), run.beside(score, f"distance{k}")) for k in PLACES)
    return tuple((k, top, distance) for k, top, distance in pairs if top is not None and distance is not None)


def _detail(run: RunSummary, attack: str, score: Score | None) -> Detail | None:
    """What the figures of an attack are drawn from: of the same play as the score beside them."""
    known = [detail for detail in run.details if detail.attack == attack]
    return next((detail for detail in known if score is None or detail.adaptive == score.adaptive), None)


def _figures(detail: Detail, score: Score | None, control: Detail | None, name: str) -> list[tuple[Markup, str]]:
    beside = control if control is not detail else None
    drawn = [
        (
            figures.null_distribution(f"{name}-null", detail, score),
            "What luck would give. Grey: the score each time the identities are permuted. Line and shade: the score "
            "and its interval.",
        ),
        (
            figures.per_user(f"{name}-users", detail, score),
            "Who is exposed. One bar per user: how surely their updates are found among all. A low mean can still "
            "hide users who are always found.",
        ),
        (
            figures.precision_recall(f"{name}-pr", detail, beside),
            "How far the attacker's word can be trusted. Left: only its surest claims; right: all of them."
            + (" Dashed: the control." if beside else ""),
        ),
        (
            figures.confusion(f"{name}-who", detail),
            "Who is taken for whom, among the most identifiable users (first) and the least (last). Darker: more "
            "often; on the diagonal the name is right.",
        ),
        (
            figures.claims(f"{name}-claims", detail),
            "How sure the attack is where the answer is yes, and where it is no. The less the two overlap, the more it "
            "knows.",
        ),
        (
            _answers(f"{name}-values", detail),
            "Which group is taken for which: of the users in a row's group, the share of their updates answered with "
            "each column's. On the diagonal the answer is right.",
        ),
    ]
    return [(drawing, caption) for drawing, caption in drawn if drawing is not None]


def _answers(name: str, detail: Detail) -> Markup | None:
    if not detail.values:
        return None
    values = [value.value for value in detail.values]
    drawn = Figure(
        kind="heatmap",
        title="Which group was taken for which",
        x_label="answer",
        y_label="true group",
        x_ticks=values,
        y_ticks=values,
        cells=[[*value.answered] for value in detail.values],
    )
    return analysis_figures.draw(name, drawn)


def _analysis(analysis: Analysis, name: str) -> Mapping[str, Any]:
    """An analysis with its figures drawn and its numbers written."""
    written = [formatting.column(values) for values in zip(*analysis.rows, strict=True)]
    return {
        "analysis": analysis,
        "figures": [(f.title, analysis_figures.draw(f"{name}-{i}", f)) for i, f in enumerate(analysis.figures)],
        "numeric": [not any(isinstance(value, str) for value in values) for values in zip(*analysis.rows, strict=True)],
        "rows": [*zip(*written, strict=True)],
    }


def _named(detail: Detail | None) -> tuple[tuple[PerUser, ...], int]:
    """The users at both ends: those most at risk, and those whom the attack misses."""
    if detail is None:
        return (), 0
    users = sorted(detail.users, key=lambda user: (-user.ap, user.user))
    if len(users) <= 2 * _MOST_NAMED:
        return tuple(users), 0
    return (*users[:_MOST_NAMED], *users[-_MOST_NAMED:]), len(users) - 2 * _MOST_NAMED
