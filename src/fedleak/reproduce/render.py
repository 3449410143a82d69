"""Summaries as pages: the table of all rows, every figure of a row, and lines for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedleak.core import format_interval, format_value
from fedleak.reproduce.rows import ROWS, Row, deciding, verdict
from fedleak.reproduce.summary import Figure, Summary, by_plan, is_stale, plan_name

__all__ = ["all_rows", "bare_value", "cost", "figure_lines", "figures_of", "list_lines", "row_pages"]


def all_rows(summaries: Mapping[str, Summary]) -> str:
    """The table of all rows, one line each, with a count of the verdicts above it."""
    counts: Counter[str] = Counter(verdict(_of(row, summaries)) or "not judged" for row in ROWS.values())
    order = ("reproduced", "direction only", "not reproduced", "not judged")
    told = ", ".join(f"{counts[name]} {name}" for name in order if counts[name])
    lines = [
        f"Of {len(ROWS)} rows: {told}.",
        *_open(summaries),
        "",
        "| row | what | verdict | here [95%] | the paper | data | seeds | minutes | measured with |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *(_line(row, _of(row, summaries)) for row in ROWS.values())])


def _open(summaries: Mapping[str, Summary]) -> Iterator[str]:
    """Which experiments are still to be measured, or measured again."""
    fresh = [stem for stem, summary in summaries.items() if summary.fedleak is None]
    older = [stem for stem, summary in summaries.items() if summary.older]
    stale = [stem for stem, summary in summaries.items() if is_stale(summary) and not summary.older]
    for told, stems in (
        ("Not measured yet", fresh),
        ("Measured with earlier rules only", older),
        ("The plan's settings changed since", stale),
    ):
        if stems:
            names = ", ".join(f"`{stem}`" for stem in stems)
            yield f"\n{told} ({len(stems)} of {len(summaries)} experiments): {names}."


def _of(row: Row, summaries: Mapping[str, Summary]) -> dict[str, Summary]:
    return {stem: summary for stem, summary in summaries.items() if summary.row == row.name}


def _line(row: Row, summaries: Mapping[str, Summary]) -> str:
    chosen = deciding(summaries)
    shown = list(chosen.values())
    # Where several decide, their figures may have one name.
    whose = {stem: f"{stem.partition('-')[2]}: " if len(chosen) > 1 else "" for stem in chosen}
    cells = [
        f"[{row.name}](rows.md#{row.name.lower()})",
        f"[{row.title}]({row.page})",
        _verdict(summaries),
        _joined(f"{whose[stem]}{s.figures[0].name} {_value(s.figures[0])}" for stem, s in chosen.items()),
        row.paper,
        _joined(s.data for s in shown),
        _joined(str(len(s.seeds)) for s in shown),
        _minutes(shown),
        _joined(_version(s) for s in shown),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _verdict(summaries: Mapping[str, Summary]) -> str:
    """The row's verdict, and what stands beside it with a weaker one."""
    told = verdict(summaries) or ("not judged" if deciding(summaries) else "not measured")
    beside = [s.title for s in summaries.values() if not s.decides and s.verdict == "not reproduced" != told]
    return told + "".join(f"<br>*not reproduced: {title}*" for title in beside)


def _joined(texts: Iterator[str]) -> str:
    """Every text once, one below the other in a cell."""
    return "<br>".join(dict.fromkeys(texts)) or "-"


def _minutes(summaries: Sequence[Summary]) -> str:
    """The minutes of all plans together; a plan that gives several figures counts once."""
    once = {(summary.plan, summary.full): summary.minutes for summary in summaries}
    known = [minutes for minutes in once.values() if minutes is not None]
    if not known:
        return "not known"
    more = "" if len(known) == len(once) else " and more"
    return f"{_rounded(sum(known))}{more}"


def _rounded(minutes: float) -> str:
    return f"{minutes:.1f}" if minutes < 10 else f"{minutes:.0f}"


def _version(summary: Summary) -> str:
    version = f"{summary.fedleak or '-'}" + (f" ({summary.commit})" if summary.commit else "")
    rules = ", earlier rules" if summary.older else ""
    return version + rules + (", plan changed since" if is_stale(summary) else "")


def bare_value(figure: Figure) -> str:
    """The value with its interval, if it has one."""
    if figure.value is None:
        return "not measured"
    if figure.low is None or figure.high is None:
        return format_value(figure.value)
    return format_interval(figure.value, figure.low, figure.high)


def _value(figure: Figure) -> str:
    if figure.value is None or figure.chance is None:
        return bare_value(figure)
    return f"{bare_value(figure)}, chance {format_value(figure.chance)}"


def figures_of(stem: str, summary: Summary) -> str:
    """Everything that one summary says, as a paragraph and a table."""
    verb = {"audit": "audit", "sweep": "sweep", "analyse": "analyse"}[summary.how]
    analyses = sorted({f.source.analysis for f in summary.figures if f.source is not None} - {""})
    named = f" {analyses[0]}" if summary.how == "analyse" and analyses else ""
    command = f"fedleak {verb}{named} {plan_name(summary)}{' --full' if summary.full else ''}"
    facts = [
        summary.data,
        f"seeds {', '.join(map(str, summary.seeds))}" if summary.seeds else "",
        f"{_rounded(summary.minutes)} minutes" if summary.minutes is not None else "minutes not known",
        summary.machine or "",
        f"Fedleak {_version(summary)}",
    ]
    lines = [
        f"**{summary.title}** (`{stem}`; `{command}`): " + "; ".join(fact for fact in facts if fact) + ".",
        "",
        "| figure | here [95%] | chance | the paper | note |",
        "| --- | --- | --- | --- | --- |",
        *(_figure_row(figure) for figure in summary.figures),
        "",
    ]
    if summary.older:
        lines += [f"Measured with earlier rules: {summary.older}", ""]
    lines.append(f"Verdict: {summary.verdict or 'not judged'}. {summary.why}".strip())
    return "\n".join(lines)


def _figure_row(figure: Figure) -> str:
    chance = "" if figure.chance is None else format_value(figure.chance)
    paper = "" if figure.paper is None else f"{figure.paper:g}"
    cells = (figure.name, bare_value(figure), chance, paper, figure.note)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def row_pages(summaries: Mapping[str, Summary]) -> str:
    """Every row with all its summaries: docs/results/rows.md between its marks."""
    parts = []
    for row in ROWS.values():
        own = _of(row, summaries)
        parts.append(f"## {row.name}\n\n{row.title}. [Discussed here]({row.page}). The paper: {row.paper}.")
        told = verdict(own) or "not judged"
        parts.append(f"Verdict: **{told}**. Again: `fedleak reproduce {row.name}`.")
        parts += [figures_of(stem, summary) for stem, summary in own.items()]
    return "\n\n".join(parts)


def cost(todo: Mapping[str, Summary], out: Path) -> list[str]:
    """What running these plans took when it was last measured."""
    lines = []
    total, unknown = 0.0, 0
    for (plan, full), names in by_plan(todo).items():
        known = [summary.minutes for stem in names if (summary := todo[stem]).minutes is not None]
        machine = next((todo[stem].machine for stem in names if todo[stem].machine), None)
        folder = out / (plan.replace("/", "-") + ("-full" if full else ""))
        begun = ", begun: resumes" if (folder / "audit.json").exists() else ""
        took = f"{_rounded(max(known))} minutes" if known else "not known how long"
        lines.append(f"{plan}{' --full' if full else ''}: {took}{f' on {machine}' if machine and known else ''}{begun}")
        total, unknown = total + (max(known) if known else 0.0), unknown + (not known)
    plans = f"{len(lines)} plan{'s' if len(lines) > 1 else ''}"
    known_part = f"about {_rounded(total)} minutes" if total else ""
    unknown_part = f"{unknown} of unknown cost" if unknown else ""
    parts = " and ".join(part for part in (known_part, unknown_part) if part)
    lines.append(f"{plans}: {parts}. Rerun the same command to resume.")
    return lines


def figure_lines(before: Summary, now: Summary, moved: Mapping[str, tuple[float, float]]) -> list[str]:
    """Each figure with what it was and what the paper has."""
    old = {figure.name: figure for figure in before.figures}
    lines = []
    for figure in now.figures:
        was = old[figure.name].value if figure.name in old else None
        told = f"{figure.name}: {_value(figure)}"
        told += "" if was is None else f"; before {format_value(was)}" + (" (moved)" if figure.name in moved else "")
        lines.append(told + ("" if figure.paper is None else f"; the paper {figure.paper:g}"))
    return lines


def list_lines(summaries: Mapping[str, Summary]) -> list[str]:
    """One line per row, and one per summary below it."""
    lines = []
    for row in ROWS.values():
        own = _of(row, summaries)
        lines.append(f"{row.name:<4} {verdict(own) or 'not judged':<15} {row.title}")
        for stem, summary in own.items():
            minutes = f"{_rounded(summary.minutes)} min" if summary.minutes is not None else "not known"
            state = _version(summary) if summary.fedleak else "not measured"
            lines.append(f"       {stem:<22} {plan_name(summary):<38} {minutes:>9}  {state}")
    return lines
