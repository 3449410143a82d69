"""Figures of several summaries in one table: attacks beside each other, or beside the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fedleak.core import format_value
from fedleak.reproduce.render import bare_value
from fedleak.reproduce.summary import Figure, From, Summary

__all__ = ["attack_table", "paper_table"]

_COLUMNS = {"classes": "right classes", "inception, own classes": "inception", "ap": "AP"}
_OWN = "the victims' own images"


def attack_table(summaries: Sequence[Summary]) -> str:
    """One line per attack and one column per metric, as far as the figures say whose they are."""
    cells: dict[str, dict[str, Figure]] = {}
    for figure in (figure for summary in summaries for figure in summary.figures):
        where = figure.source
        if where is not None and where.attack:
            cells.setdefault(_line(where), {}).setdefault(_column(where), figure)
    columns = list(dict.fromkeys(name for line in cells.values() for name in line))
    common = {name: _usual_chance([line[name] for line in cells.values() if name in line]) for name in columns}
    heads = [f"{name} (chance {common[name]})" if common[name] else name for name in columns]
    lines = [f"| {' | '.join(['attack', *heads])} |", "| --- " * (len(columns) + 1) + "|"]
    for name, line in sorted(cells.items(), key=lambda item: item[0] == _OWN):
        told = [_told(line[column], common[column]) if column in line else "" for column in columns]
        lines.append(f"| {' | '.join([name, *told])} |")
    return "\n".join(lines)


def paper_table(summaries: Sequence[Summary]) -> str:
    """Every figure that the paper has, too."""
    several = len(summaries) > 1
    lines = ["| figure | the paper | here [95%] |", "| --- | --- | --- |"]
    for summary in summaries:
        title = f"{summary.title}: " if several else ""
        lines += [
            f"| {title}{figure.name} | {figure.paper:g} | {bare_value(figure)} |"
            for figure in summary.figures
            if figure.paper is not None
        ]
    return "\n".join(lines)


def _line(where: From) -> str:
    if where.real:
        return _OWN
    name, _, settings = where.attack.partition(" ")
    return f"`{name}`" + (f" {settings}" if settings else "") + (f", {where.control}" if where.control else "")


def _column(where: From) -> str:
    name = where.quality or where.metric
    return _COLUMNS.get(name, f"gap {name[3:]}" if name.startswith("gap") else name)


def _usual_chance(figures: Sequence[Figure]) -> str:
    """The chance level that most figures of a column have; those with another one say so."""
    chances = Counter(format_value(figure.chance) for figure in figures if figure.chance is not None)
    return chances.most_common(1)[0][0] if chances else ""


def _told(figure: Figure, usual: str) -> str:
    """A value with its interval, and with its chance unless that is the usual one."""
    own = "" if figure.chance is None or figure.value is None else format_value(figure.chance)
    return bare_value(figure) + (f", chance {own}" if own not in ("", usual) else "")
