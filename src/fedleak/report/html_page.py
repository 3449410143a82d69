"""One self-contained HTML page: verdicts first, then the evidence, then everything needed to repeat it.

The page uses no network, no script and no font but the reader's own; its content security policy enforces
that. Names and plans are untrusted and are escaped everywhere.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from fedleak.core import in_unit
from fedleak.report import formatting, summary
from fedleak.report.section import sections
from fedleak.results.audit import Audit
from fedleak.trace.files import private_folder, write_atomic

__all__ = ["write", "render", "templates"]

_MOST_RECORDS = 40  # users in the table of secrets


def write(audit: Audit, path: Path) -> Path:
    """Write the page atomically, readable only by the file's owner: it names users."""
    page = render(audit)
    path = Path(path)
    private_folder(path.parent)
    write_atomic(path, page.encode("utf-8"))
    return path


def render(audit: Audit) -> str:
    """Render the page; the same audit always gives the same text."""
    environment = templates()
    shown, unit = [], next((game.unit for game in audit.games.values()), "user")
    for section in sections():
        context = section.context(audit)
        if context is not None:
            partial = environment.get_template(str(section.partial))
            text = partial.render(audit=audit, **context)  # the template escaped its parts
            shown.append((section, Markup(in_unit(text, unit) if section.by_unit else text)))
    return environment.get_template("report.html").render(
        audit=audit,
        sections=shown,
        style=Markup(environment.get_template("style.css").render()),  # our own file, never text of an audit
    )


@cache
def templates() -> jinja2.Environment:
    """The templates of every page: they escape all that they are given, and know how numbers are written."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader("fedleak.report"), jinja2.FunctionLoader(_beside_its_class)]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names must not bring control characters into the page.
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
        picked_interval=formatting.picked_interval,
        by_seed=formatting.by_seed,
        kind=summary.verdict_kind,
        too_few=summary.too_few,
        verdict=summary.verdict,
        most=lambda rows: rows[:_MOST_RECORDS],
        spaced=lambda name: str(name).replace("_", " "),
    )
    return environment


def _beside_its_class(name: str) -> str | None:
    path = Path(name)
    return path.read_text(encoding="utf-8") if path.is_file() else None
