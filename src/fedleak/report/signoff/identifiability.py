"""What the attacks show: by regulators' criteria, and question by question with controls, worst-off users and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedleak.report import sentences, tradeoff
from fedleak.report.formatting import epsilon, format_value, picked_interval, run_label
from fedleak.report.sections.users import tail_of, told
from fedleak.report.signoff.decision import Evidence, deployed
from fedleak.report.summary import GameSummary, RunSummary, game_summaries, too_few
from fedleak.results.audit import Audit
from fedleak.results.criteria import CRITERIA, DEFINITIONS
from fedleak.results.defence_results import Promise

__all__ = ["Tested", "CriterionRow", "criteria", "not_mapped", "questions", "statements", "defences", "residual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One question of one adversary, and what its strongest attack shows on one run."""

    scene: GameSummary
    run: RunSummary
    evidence: Evidence
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionRow:
    """One criterion, and every question that tested it; none: not tested."""

    name: str
    definition: str
    tested: tuple[Tested, ...]


def criteria(audit: Audit) -> list[CriterionRow]:
    """Every criterion, tested or not, by the questions that declare it."""
    scenes = game_summaries(audit)
    return [
        CriterionRow(
            name=name,
            definition=DEFINITIONS[name],
            tested=tuple(
                found
                for scene in scenes
                if scene.info is not None and name in (scene.info.criteria or ())
                for found in _tested(audit, scene)
            ),
        )
        for name in CRITERIA
    ]


def not_mapped(audit: Audit) -> list[str]:
    """The games that declare no criterion."""
    return [name for name, info in audit.games.items() if not info.criteria]


def _tested(audit: Audit, scene: GameSummary) -> list[Tested]:
    """The run without a defence, and the deployed one if there is one."""
    marked = deployed(audit)
    wanted = {run_label(marked, None)} if marked is not None else set()
    runs = [run for run in (scene.undefended, *scene.defended) if run is not None]
    return [shown_on(scene, run) for run in runs if not run.defended or run.label in wanted]


def shown_on(scene: GameSummary, run: RunSummary) -> Tested:
    """What the strongest attack on a run shows."""
    best, leaks = run.strongest(scene.metric), run.leaks(scene.metric)
    if best is None:
        return Tested(scene=scene, run=run, evidence="not tested", said="no attack was scored")
    said = f"{best.attack}: {scene.measure} {picked_interval(best)}, chance {format_value(best.chance)}"
    if leaks is None:  # an attack that could not show anything tests nothing
        return Tested(scene=scene, run=run, evidence="not tested", said=f"{said}; {too_few(best)} to tell")
    return Tested(scene=scene, run=run, evidence="shown" if leaks else "not shown", said=said)


def questions(audit: Audit) -> list[Mapping[str, Any]]:
    """Every adversary and game: scores of every run, its control, its worst-off users, and what defences cost."""
    found: list[Mapping[str, Any]] = []
    for scene in game_summaries(audit):
        weighed = next((t for t in audit.tradeoffs if (t.adversary, t.game) == (scene.adversary, scene.game)), None)
        first = tail_of(scene, scene.undefended) if scene.undefended else None
        held, control = sentences.control_held(scene)
        best = scene.undefended.strongest(scene.metric) if scene.undefended else None
        found.append(
            {
                "scene": scene,
                "found": sentences.found(scene) if scene.undefended else "",
                "exact": sentences.exact(scene),
                "unit": best.unit if best else "user",
                "rows": [(run, shown_on(scene, run), run.strongest(scene.metric)) for run in scene.runs],
                "users": told(first.tail) if first else "",
                "users_score": first.tail.score if first else "",
                "control": control,
                "control_held": held,
                "costs": _costs(tradeoff.rows(weighed)) if weighed else [],
                "advice": weighed.advice if weighed else "",
                "residual": residual(audit, scene),
            }
        )
    return found


def _costs(rows: Sequence[tuple[str, ...]]) -> list[Mapping[str, str]]:
    return [dict(zip(tradeoff.COLUMNS, row, strict=True)) for row in rows]


def defences(audit: Audit) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Every defence of the audit: its name, what it does, and what its settings mean."""
    return [(name, text, list(audit.settings.get(name, {}).items())) for name, text in audit.defences.items()]


def residual(audit: Audit, scene: GameSummary) -> str:
    """What is left of the leak as deployed, in one sentence."""
    marked = deployed(audit)
    run = scene.undefended
    if marked is not None:
        run = next((one for one in scene.defended if one.label == run_label(marked, None)), None)
    where = "as deployed" if marked is not None else "without a defence"
    if run is None:
        return f"Not tested {where}."
    tested = shown_on(scene, run)
    best = run.strongest(scene.metric)
    upper = ""
    if best is not None and best.all_high is not None and not best.distance:
        short = scene.metric_info(scene.metric).short
        upper = f" The upper end of its interval: {short} {format_value(best.all_high)}."
    if tested.evidence == "shown":
        return f"A leak is shown {where} ({tested.said}).{upper}"
    if tested.evidence == "not tested":
        return f"Not tested {where}: {tested.said}."
    return f"A leak is not shown {where} ({tested.said}).{upper} Attacks that were not run may find more."


_ASKED = (
    ("unit of privacy", "unit"),
    ("adjacency", "adjacency"),
    ("protects against", "against"),
    ("trusted", "trusted"),
    ("sampling", "sampling"),
    ("assumed public", "public"),
    ("composition", "composition"),
    ("accountant", "accountant"),
)


def statements(audit: Audit) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every statement of differential privacy, with what SP 800-226 asks for; what is missing says "not stated"."""
    return [
        (f"{run_label(given.defence, None)}: {promise.defence}", _statement(promise))
        for given in audit.promises
        for promise in given.promises
    ]


def _statement(promise: Promise) -> list[tuple[str, str]]:
    if promise.epsilon is None:
        return [("epsilon", f"not stated: {promise.how}")]
    rows = [
        ("epsilon", f"{epsilon(promise.epsilon)} for the whole run"),
        ("delta", "not stated" if promise.delta is None else f"{promise.delta:.1e}"),
        ("mechanism", promise.how),
    ]
    if promise.per_round is not None:
        rows.insert(1, ("epsilon of one round", epsilon(promise.per_round)))
    if promise.hidden_epsilon is not None:
        rows.insert(1, ("epsilon while it is secret who takes part", epsilon(promise.hidden_epsilon)))
    for title, field in _ASKED:
        value = str(getattr(promise, field) or "not stated")
        if field == "unit" and promise.unit and promise.count is not None:
            value = f"one {promise.unit} of {promise.count}"
        rows.append((title, value))
    if promise.warning:
        rows.append(("weakness", promise.warning))
    return [*rows, ("empirical test", _canaries(promise)), *_NOT_COVERED]


def _canaries(promise: Promise) -> str:
    """What canaries show of the epsilon of one round, and of the whole run."""
    found = []
    if promise.shown is not None and promise.tested is not None:
        least = (
            f"canaries show at least {epsilon(promise.shown)} in one round; {epsilon(promise.tested)} is stated there"
        )
        if promise.shown > promise.tested:
            found.append(f"contradiction shown: {least}")
        elif promise.most is not None and promise.tested > promise.most:
            found.append(f"not tested: {least}, and canaries cannot show more than {epsilon(promise.most)}")
        else:
            found.append(f"contradiction not shown: {least}")
    if promise.shown_over_run is not None and promise.epsilon is not None:
        word = "shown" if promise.shown_over_run > promise.epsilon else "not shown"
        least = f"canary clients show at least {epsilon(promise.shown_over_run)} over the whole run"
        found.append(f"contradiction {word}: {least}; {epsilon(promise.epsilon)} is stated for it")
    return ". ".join(one[0].upper() + one[1:] for one in found) or "not tested"


# The lower levels of the publication's pyramid, about which no number of this audit says anything.
_NOT_COVERED = [
    ("randomness, floating point, timing", "not tested"),
    ("access to raw data and to the trace", "not tested"),
]
