"""A summary: one file of docs/results/data, with the figures that one plan gave of one row of the papers."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fedleak.errors import FedleakError
from fedleak.plan import shipped
from fedleak.trace.files import private_folder, read_whole

__all__ = [
    "Figure",
    "From",
    "Summary",
    "Verdict",
    "by_plan",
    "folder",
    "is_stale",
    "plan_name",
    "plan_sha256",
    "read",
    "read_all",
    "settings_sha256",
    "write",
]

Verdict = Literal["reproduced", "direction only", "not reproduced"]


class From(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a figure stands in the result: a score, quality of images, a utility, or a cell or line of an analysis."""

    attack: str = ""  # as results.json names it, for instance "reid-mlp (layer=out)"
    metric: str = ""
    game: str = ""  # with settings where the plan has one twice; empty: the only one with this attack and metric
    adversary: str = ""
    defence: dict[str, Any] | None = None  # name, and as many settings as it takes to tell it from others
    adaptive: bool = False
    control: str | None = None
    quality: str = ""  # of an attack's images, instead of a metric: readable, inception, ...
    real: bool = False  # the quality of the victims' own images
    utility: Literal["", "value", "undefended", "centralised", "knn", "chance"] = ""
    analysis: str = ""
    row: dict[str, str | float] = {}  # of an analysis: cells of the row that tell it from others
    column: str = ""  # of an analysis
    figure: str = ""  # of an analysis: the title of the figure whose line ends at the value
    series: str = ""  # the name of that line


class Figure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One number of ours, with the paper's beside it."""

    name: str
    value: float | None = None  # None: not measured yet
    low: float | None = None  # 95%
    high: float | None = None
    chance: float | None = None
    paper: float | None = None
    note: str = ""
    source: From | None = msgspec.field(name="from", default=None)  # None: copied from a page, not measured again


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one plan gave of one row. The first figure is the one that the table of all rows shows."""

    row: Annotated[str, Meta(pattern="^[GRUL][0-9]+$")]
    title: str
    plan: Annotated[str, Meta(pattern=r"^plans/.+\.toml$")]
    plan_sha256: str | None = None  # of the plan's settings when it was measured; None: not known
    full: bool = False  # with --full
    how: Literal["audit", "sweep", "analyse"] = "audit"
    settings: dict[str, Any] = {}  # of the analysis, where `how` is "analyse"
    fedleak: str | None = None  # version that measured; None: not measured yet
    commit: str | None = None
    seeds: list[int] = []
    minutes: float | None = None
    machine: str | None = None
    data: str
    figures: Annotated[list[Figure], Meta(min_length=1)]
    verdict: Verdict | None = None  # given by a person; None: not judged, or the figures have moved since
    why: str = ""
    decides: bool = True  # the row's verdict is the weakest of those that decide; others stand beside it
    older: str = ""  # measured with rules that no longer hold, and which


def folder() -> Path:
    """Where the summaries are: in an installed package, or in the documentation of a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "reproduce" / "data"
    return installed if installed.is_dir() else package.parents[1] / "docs" / "results" / "data"


def read(path: Path) -> Summary:
    """Read a summary, and reject one that is damaged or contradicts itself."""
    fix = "restore it (git checkout), or mend it"
    try:
        found = msgspec.json.decode(read_whole(path), type=Summary)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FedleakError(f"{path}: damaged, or not a summary of `fedleak reproduce` ({error}); {fix}") from error
    for trouble in _troubles(path.stem, found):
        raise FedleakError(f"{path}: {trouble}; {fix}")
    return found


def _troubles(stem: str, found: Summary) -> Iterable[str]:
    if stem.split("-", 1)[0] != found.row:
        yield f"row is {found.row}, but the file's name must begin with the row"
    names = [figure.name for figure in found.figures]
    yield from (f"figure '{name}' stands there twice" for name in {name for name in names if names.count(name) > 1})
    for figure in found.figures:
        numbers = (figure.value, figure.low, figure.high, figure.chance, figure.paper)
        if any(number is not None and not math.isfinite(number) for number in numbers):
            yield f"figure '{figure.name}' has a number that is not finite"
        if (figure.low is None) != (figure.high is None):
            yield f"figure '{figure.name}' has one end of an interval, but not the other"
        if figure.value is not None and figure.low is not None and figure.high is not None:
            slack = 1e-9
            if not figure.low - slack <= figure.value <= figure.high + slack:
                yield f"figure '{figure.name}' lies outside its interval"
    measured = any(figure.value is not None for figure in found.figures)
    if measured and found.fedleak is None:
        yield "it has figures, but not the version of Fedleak that measured them"
    if found.verdict is not None and not (measured and found.why):
        yield "a verdict needs figures and a reason (`why`)"


def read_all(where: Path) -> dict[str, Summary]:
    """Every summary in a folder, by the name of its file, in the order of the rows."""
    if not where.is_dir():
        raise FedleakError(f"{where}: no such folder; choose the folder of the summaries with --data")
    paths = sorted(where.glob("*.json"), key=lambda path: _place(path.stem))
    return {path.stem: read(path) for path in paths}


def _place(stem: str) -> tuple[int, int, str]:
    row, _, what = stem.partition("-")
    return ("GRUL".find(row[:1]), int(row[1:]) if row[1:].isdigit() else 0, what)


def write(path: Path, summary: Summary) -> None:
    """Write a summary, atomically; figures of a federation hold nothing about its users, so others may read them."""
    text = msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n"
    if not path.parent.is_dir():
        private_folder(path.parent)
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_bytes(text)
        temporary.replace(path)
    except OSError as error:
        raise FedleakError(f"cannot write {path}: {error.strerror}; choose another folder with --data") from error


def plan_name(summary: Summary) -> str:
    """The name of a summary's plan among the shipped plans.

    >>> plan_name(Summary(row="G2", title="", plan="plans/demo.toml", data="", figures=[]))
    'demo'
    """
    return summary.plan.removeprefix("plans/").removesuffix(".toml")


def plan_sha256(name: str) -> str | None:
    """The hash of what a shipped plan settles; None where there is no such plan (any more)."""
    path = shipped.folder() / f"{name}.toml"
    return settings_sha256(path.read_text(encoding="utf-8")) if path.is_file() else None


def settings_sha256(text: str) -> str:
    """The hash of a plan's settings: of what it does, not of its comments, title and story.

    >>> settings_sha256("seeds = [0]  # one") == settings_sha256("seeds = [0]")
    True
    """
    settings = {key: value for key, value in tomllib.loads(text).items() if key not in ("title", "story")}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def is_stale(summary: Summary) -> bool:
    """Whether the plan's settings have changed since the figures were measured."""
    return summary.fedleak is not None and summary.plan_sha256 != plan_sha256(plan_name(summary))


def by_plan(summaries: Mapping[str, Summary]) -> dict[tuple[str, bool], list[str]]:
    """The names of the summaries behind each plan, so that a plan of several rows runs once."""
    found: dict[tuple[str, bool], list[str]] = {}
    for name, summary in summaries.items():
        found.setdefault((plan_name(summary), summary.full), []).append(name)
    return found
