"""Find a figure in the result of an audit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fedleak.errors import FedleakError, did_you_mean
from fedleak.reproduce.summary import Figure, From
from fedleak.results.audit import Analysis, Audit, Score
from fedleak.results.detail import Detail

__all__ = ["measured"]


def measured(figure: Figure, audit: Audit) -> Figure:
    """The figure as this audit gives it; the paper's number, the note and the name stay."""
    where = figure.source
    assert where is not None
    try:
        if where.analysis:
            value, low, high, chance = _cell(where, audit.analyses)
        elif where.utility:
            value, low, high, chance = _utility(where, audit.scores)
        elif where.quality:
            value, low, high, chance = _quality(where, audit.details)
        else:
            score = _score(where, audit.scores)
            value, low, high, chance = score.value, score.low, score.high, score.chance
    except FedleakError as error:
        raise FedleakError(f"figure '{figure.name}': {error}") from error
    return msgspec.structs.replace(figure, value=value, low=low, high=high, chance=chance)


Numbers = tuple[float, float | None, float | None, float | None]


def _score(where: From, scores: Sequence[Score]) -> Score:
    of_run = [score for score in scores if _same_run(where, score)]
    named = [score for score in of_run if score.attack == where.attack]
    if not named:
        known = {score.attack for score in of_run}
        raise FedleakError(f"the audit has no attack '{where.attack}' there{did_you_mean(where.attack, known)}")
    found = [
        score
        for score in named
        if score.metric == where.metric
        and where.game in ("", score.game)
        and where.adversary in ("", score.adversary)
        and where.adaptive == score.adaptive
    ]
    if len(found) != 1:
        known = {f"{score.metric} in {score.game} as {score.adversary}" for score in named}
        raise FedleakError(
            f"{len(found)} scores of '{where.attack}' fit metric '{where.metric}', game '{where.game}' and adversary "
            f"'{where.adversary}'; there are: {', '.join(sorted(known))}"
        )
    return found[0]


def _quality(where: From, details: Sequence[Detail]) -> Numbers:
    """Of an attack's images; of the victims' own there is no interval."""
    known = {
        f"{quality.name} of {detail.attack} as {detail.adversary}": quality
        for detail in details
        if _same_run(where, detail) and detail.adaptive == where.adaptive
        for quality in detail.quality
    }
    wanted = f"{where.quality} of {where.attack} as "
    found = [quality for name, quality in known.items() if name.startswith(wanted + where.adversary)]
    if len(found) != 1:
        raise FedleakError(
            f"{len(found)} qualities of images fit '{wanted}{where.adversary}'{did_you_mean(wanted, known)}"
        )
    if where.real:
        return found[0].real, None, None, None
    return found[0].value, found[0].low, found[0].high, None


def _same_run(where: From, score: Score | Detail) -> bool:
    if score.control != where.control or (score.defence is None) != (where.defence is None):
        return False
    defence = score.defence or {}
    return all(defence.get(key) == value for key, value in (where.defence or {}).items())


def _utility(where: From, scores: Sequence[Score]) -> Numbers:
    utility = next((score.utility for score in scores if _same_run(where, score) and score.utility is not None), None)
    value = getattr(utility, where.utility, None)
    if utility is None or value is None:
        raise FedleakError(f"the audit has no utility '{where.utility}' of this run")
    if where.utility == "value":
        return utility.value, utility.low, utility.high, utility.chance
    return float(value), None, None, None


def _cell(where: From, analyses: Sequence[Analysis]) -> Numbers:
    named = {analysis.name: analysis for analysis in analyses}
    if where.analysis not in named:
        raise FedleakError(f"the audit has no analysis '{where.analysis}'{did_you_mean(where.analysis, named)}")
    table = named[where.analysis]
    if where.series:
        return _last_point(where, table)
    for column in (where.column, *where.row):
        if column not in table.columns:
            near = did_you_mean(column, table.columns)
            raise FedleakError(f"analysis '{where.analysis}' has no column '{column}'{near}")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    found = [row for row in rows if all(row[key] == value for key, value in where.row.items())]
    if len(found) != 1:
        raise FedleakError(f"{len(found)} rows of analysis '{where.analysis}' fit {where.row}")
    place = table.columns.index(where.column)
    value = found[0][where.column]
    if not isinstance(value, (int, float)):
        raise FedleakError(f"analysis '{where.analysis}', column '{where.column}': {value!r} is not a number")
    # An interval belongs to the column before it.
    if table.columns[place + 1 : place + 3] == ["low", "high"]:
        low, high, chance = (_number(found[0].get(name)) for name in ("low", "high", "chance"))
        return float(value), low, high, chance
    return float(value), None, None, None


def _last_point(where: From, analysis: Analysis) -> Numbers:
    """Where a line of one of the analysis' figures ends."""
    lines = {(figure.title, line.name): line for figure in analysis.figures for line in figure.series}
    line = lines.get((where.figure, where.series))
    if line is None or not line.y:
        known = ", ".join(f"'{name}' in '{title}'" for title, name in lines)
        raise FedleakError(
            f"analysis '{where.analysis}' has no line '{where.series}' in a figure '{where.figure}'; there are: {known}"
        )
    low, high = (ends[-1] if ends else None for ends in (line.low, line.high))
    return line.y[-1], low, high, None


def _number(value: str | float | None) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
