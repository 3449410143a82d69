"""`results.json`: the stable, machine-readable result (docs/reference/results.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fedleak.errors import TraceError
from fedleak.results.audit import SCHEMA, Audit, Score
from fedleak.results.detail import Detail, Grid
from fedleak.trace.files import private_folder, read_whole, write_atomic

__all__ = ["NAME", "encode", "write", "read_results", "with_images"]

NAME = "results.json"
IMAGES = "images.json"


class _Version(msgspec.Struct):
    schema: int


def write(audit: Audit, folder: Path) -> Path:
    """Write an audit's result atomically, readable only by the file's owner: it names users."""
    folder = Path(folder)
    content = encode(msgspec.structs.replace(audit, details=[_unseen(detail) for detail in audit.details]))
    private_folder(folder)
    write_atomic(folder / NAME, content)
    # Images of users' data do not belong in a file that is shared.
    if any(detail.grids for detail in audit.details):
        write_atomic(folder / IMAGES, msgspec.json.encode([detail.grids for detail in audit.details]))
    return folder / NAME


def _unseen(detail: Detail) -> Detail:
    return msgspec.structs.replace(detail, grids=[])


def with_images(audit: Audit, folder: Path) -> Audit:
    """The audit with the images saved beside it, if they still match."""
    path = Path(folder) / IMAGES
    if not path.exists():
        return audit
    try:
        kept = msgspec.json.decode(read_whole(path), type=list[list[Grid]])
    except msgspec.DecodeError as error:
        raise TraceError(f"{path} is damaged ({error}); delete it, or run `fedleak score` to make it again") from error
    if len(kept) != len(audit.details):
        return audit
    shown = [msgspec.structs.replace(d, grids=grids) for d, grids in zip(audit.details, kept, strict=True)]
    return msgspec.structs.replace(audit, details=shown)


def encode(audit: Audit) -> bytes:
    """Write an audit as JSON; the same audit always gives the same bytes.

    JSON has no NaN, and a score that is not a number is a bug in its computation: it is rejected here rather than
    written as an unexpected null.
    """
    tidy = msgspec.structs.replace(audit, scores=_in_order(audit))
    _refuse_nan(msgspec.to_builtins(tidy), "audit")
    return msgspec.json.format(msgspec.json.encode(tidy), indent=1) + b"\n"


def read_results(folder: Path) -> Audit:
    """Read the result of an audit back."""
    path = Path(folder) / NAME
    if not path.exists():
        raise TraceError(f"{path}: no result yet; run `fedleak score` or `fedleak audit` first")
    content = read_whole(path)
    try:
        found = msgspec.json.decode(content, type=_Version).schema
        if found > SCHEMA:
            raise TraceError(
                f"{path}: written by a newer Fedleak (schema {found}, this one reads {SCHEMA}); upgrade Fedleak, "
                "or score the trace again with this version"
            )
        if found < SCHEMA:
            raise TraceError(
                f"{path}: written by an older Fedleak (schema {found}, this one reads {SCHEMA}); run `fedleak score` "
                "to make it again"
            )
        audit = msgspec.json.decode(content, type=Audit)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(
            f"{path}: damaged, or not a result of Fedleak ({error}); run `fedleak score` to make it again"
        ) from error
    for place, ragged in _ragged(audit):
        if ragged:
            raise TraceError(
                f"{path}: damaged: {place} has lists whose lengths disagree; run `fedleak score` to make it again"
            )
    return audit


def _ragged(audit: Audit) -> Iterator[tuple[str, bool]]:
    """Every place whose lists must have matching lengths, and whether they do not."""
    for i, detail in enumerate(audit.details):
        users, values, claims = len(detail.confusion_users), len(detail.values), detail.claims
        fits = [len(detail.recall) == len(detail.precision), len(detail.confusion) == users]
        fits += [len(row) == users for row in detail.confusion]
        fits += [len(value.answered) == values for value in detail.values]
        if claims is not None:
            fits.append(len(claims.yes) == len(claims.no) == len(claims.edges) - 1)
        yield f"details[{i}]", not all(fits)
    for i, analysis in enumerate(audit.analyses):
        fits = [len(row) == len(analysis.columns) for row in analysis.rows]
        for drawn in analysis.figures:
            for series in drawn.series:
                beside = (series.y, series.low, series.high, series.labels)
                fits += [len(values) == len(series.x) for values in beside if values is not None]
            if drawn.cells is not None:
                fits += [drawn.y_ticks is None or len(drawn.cells) == len(drawn.y_ticks)]
                wide = len(drawn.x_ticks) if drawn.x_ticks is not None else len(drawn.cells[0]) if drawn.cells else 0
                fits += [len(row) == wide for row in drawn.cells]
        yield f"analyses[{i}]", not all(fits)


def _in_order(audit: Audit) -> list[Score]:
    """Run by run (no defence, defences as the plan lists them, controls), then adversary, attack and metric."""
    runs = list(dict.fromkeys(_run(score) for score in audit.scores))
    attacks = [*audit.attacks]
    adversaries = [threat.name for threat in audit.threats]

    def place(score: Score) -> tuple[Any, ...]:
        return (
            score.control is not None,
            score.defence is not None,
            runs.index(_run(score)),
            _rank(score.adversary, adversaries),
            score.game,
            _rank(score.attack, attacks),
            score.adaptive,
            not score.headline,
            _rank(score.metric, [one.name for one in known.metrics] if (known := audit.games.get(score.game)) else []),
        )

    return sorted(audit.scores, key=place)


def _run(score: Score) -> bytes:
    return msgspec.json.encode((score.defence, score.control), order="deterministic")


def _rank(name: str, known: Any) -> tuple[int, str]:
    return (known.index(name) if name in known else len(known), name)


def _refuse_nan(value: Any, place: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, which is not allowed in a result")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_nan(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            _refuse_nan(item, f"{place}[{position}]")
