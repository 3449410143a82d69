"""The sign-off document as one self-contained HTML page, made to be printed and signed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from fedleak.core import in_unit
from fedleak.report import results_file
from fedleak.report.html_page import templates
from fedleak.report.signoff import identifiability
from fedleak.report.signoff.decision import decision, deployed_label
from fedleak.report.signoff.signatories import ROLES, Signatories, tested_on
from fedleak.report.summary import compared, untested_groups
from fedleak.results.audit import Audit, Utility
from fedleak.results.criteria import PHASES
from fedleak.trace.files import private_folder, read_whole, write_atomic

__all__ = ["NAME", "write", "render", "audit_id"]

NAME = "sign-off.html"


def audit_id(folder: Path) -> str:
    """The SHA-256 of results.json, which the document is made from: `sha256sum` gives the same."""
    return hashlib.sha256(read_whole(Path(folder) / results_file.NAME)).hexdigest()


def write(audit: Audit, folder: Path, signed: Signatories) -> Path:
    """Write the document atomically, readable only by its owner."""
    page = render(audit, signed, audit_id(folder))
    private_folder(Path(folder))
    path = Path(folder) / NAME
    write_atomic(path, page.encode("utf-8"))
    return path


def render(audit: Audit, signed: Signatories, digest: str) -> str:
    """Render the document; the same audit and signatures always give the same text."""
    environment = templates()
    unit = next((game.unit for game in audit.games.values()), "user")
    body = environment.get_template("signoff.html").render(
        audit=audit,
        signed=signed,
        digest=digest,
        roles=ROLES,
        tested_on=tested_on(audit),
        decision=decision(audit),
        deployed=deployed_label(audit),
        phases=_phases(audit),
        attacks=_attacks(audit),
        criteria=identifiability.criteria(audit),
        not_mapped=identifiability.not_mapped(audit),
        questions=identifiability.questions(audit),
        defences=identifiability.defences(audit),
        statements=identifiability.statements(audit),
        utility=compared(used) if (used := _utility(audit)) else "",
        untested=untested_groups(audit.untested),
    )
    return environment.get_template(
        "signoff_page.html"
    ).render(
        audit=audit,
        digest=digest,
        body=Markup(in_unit(body, unit)),  # the template escaped its parts
        style=Markup(environment.get_template("style.css").render()),
        print_style=Markup(environment.get_template("signoff.css").render(digest=digest[:12])),
    )


def _phases(audit: Audit) -> list[Mapping[str, Any]]:
    """Adversaries by what they attack; a phase that nobody attacks was not tested."""
    known: list[Mapping[str, Any]] = [
        {"name": name, "definition": text, "threats": [t for t in audit.threats if t.attacks_on == name]}
        for name, text in PHASES.items()
    ]
    rest = [threat for threat in audit.threats if threat.attacks_on is None]
    return [*known, {"name": "other", "definition": "", "threats": rest}] if rest else known


def _attacks(audit: Audit) -> list[Mapping[str, Any]]:
    """Every attack: how it works, as whom it was run, what it knew before, and how long it took."""
    found: list[Mapping[str, Any]] = []
    for name, summary in audit.attacks.items():
        scores = [score for score in audit.scores if score.attack == name]
        games = list(dict.fromkeys(score.game for score in scores))
        seconds = audit.attack_seconds.get(name)
        found.append(
            {
                "name": name,
                "summary": summary,
                "adversaries": list(dict.fromkeys(score.adversary for score in scores)),
                "prior": "; ".join(dict.fromkeys(_prior(audit, game) for game in games)) or "not tested",
                "time": "not recorded" if seconds is None else _time(seconds),
            }
        )
    return found


def _utility(audit: Audit) -> Utility | None:
    """Of the run without a defence."""
    plain = (score.utility for score in audit.scores if score.defence is None and score.control is None)
    return next((used for used in plain if used is not None), None)


def _prior(audit: Audit, game: str) -> str:
    info = audit.games.get(game)
    if info is None or info.prior is None:
        return "whatever the plan gives"
    if not info.prior:
        return "none of the users' data"
    examples = audit.population.get("prior examples")
    return f"{examples} examples of the users" if examples else "data of the users"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
