"""The result of an audit: what `results.json` holds, and the only thing that the reports read.

The schema is versioned and documented in docs/reference/results.md. Adding a key keeps the version; removing one or
changing a meaning raises it.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fedleak.population.data_quality import Finding
from fedleak.score.defence_results import Effect, Failure, Promised, Tradeoff

__all__ = [
    "SCHEMA",
    "Utility",
    "Score",
    "PerUser",
    "PerValue",
    "ScoreHistogram",
    "PerRecord",
    "Quality",
    "Grid",
    "Detail",
    "Series",
    "Figure",
    "Analysis",
    "Finding",
    "Threat",
    "Untested",
    "Audit",
]

SCHEMA = 1


class Utility(msgspec.Struct, frozen=True, kw_only=True):
    """How good the trained model is, beside what it could have been."""

    metric: str  # accuracy, ap, top5, mae
    value: float
    low: float  # over seeds; equal to value with one seed
    high: float
    higher_is_better: bool
    undefended: float | None = None  # the same run without the defence
    centralised: float | None = None  # one machine with everyone's data, as many passes over it
    knn: float | None = None  # the 10 nearest neighbours among everyone's data; None for text
    chance: float | None = None  # the best constant answer


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One number of an attack with everything needed to judge it."""

    attack: str
    adversary: str
    game: str
    metric: str  # ap, top1, top5, auc, p5, p10, unseen, extracted, attributed, ...: shares between 0 and 1
    value: float
    low: float  # interval, resampled by user
    high: float
    level: float  # of the interval, for instance 0.95
    chance: float  # the mean of the same metric with identities permuted, or blind guessing if that is more
    chance_high: float  # the 97.5th percentile of the same; of a distance the 2.5th
    chance_low: float | None = None  # the 2.5th percentile of the same; of a distance the 97.5th
    multiple: float | None  # value / chance; None where chance is 0
    n: int  # questions asked
    users: int  # users that the interval resamples, over all seeds
    options: int  # users, or values, to choose from in one question; 1 where the answer is yes or no
    seeds: list[int]
    defence: dict[str, Any] | None = None  # {"name": ..., settings ...}
    adaptive: bool = False  # the adversary knows of the defence and imitates it
    # "iid": the same audit of users with nothing personal in their data; "fresh-data": the same, and every client
    # trains on other examples in every round; "decoys": the same claims marked against
    # records that nobody holds; "shuffled-selection": the same attack, told in the wrong order which clients took part;
    # "swapped-secrets": the same claims, each client's marked against the secret of another one's owner
    # and which of its own records stands where
    control: str | None = None
    utility: Utility | None = None
    limit: float | None = None  # the plan's limit for this metric, if it has one
    exceeded: bool = False  # the interval's lower end is above the limit
    verdict: str = ""  # one sentence: what was shown
    headline: bool = False  # this metric is the one that verdicts about its game are about
    distance: bool = False  # not a share but a distance in characters: the smaller, the more is given away


class PerUser(msgspec.Struct, frozen=True, kw_only=True):
    """How identifiable one user was."""

    user: str
    ap: float
    updates: int
    mistaken_for: str | None  # whom their updates were most often taken for, other than themselves


class PerValue(msgspec.Struct, frozen=True, kw_only=True):
    """How well one value of an attribute was inferred."""

    value: str
    users: int  # who have it
    right: float  # mean over them of the share of their updates that are answered right
    answered: list[float]  # mean over them of the share answered with each value, in the order of the values


class ScoreHistogram(msgspec.Struct, frozen=True, kw_only=True):
    """How high the claims were where the answer is yes, and where it is no."""

    edges: list[float]  # of the bins, one more than bins
    yes: list[int]  # questions in each bin
    no: list[int]


class PerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How near an attack came to the secret of one user; the secret itself is not told."""

    user: str
    place: int | None  # in the ranking of the user's own client, from 1; None: not there
    elsewhere: int | None  # the best place in anybody's ranking
    distances: dict[str, int]  # smallest edit distance among the first 1, 5, ... of the user's own ranking


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """What reconstructed images are like, by one measure, over all victims and seeds."""

    # readable: the share that a judge takes for an image; classes: that shows a class which the victim has; inception:
    # the inception score; diversity: distance between images of one class, in units of their own length
    name: str
    value: float
    low: float
    high: float
    real: float  # the same of the victims' own images


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Images of one victim, for the owner of the report: the first row is real, the others are reconstructed."""

    user: str
    png: str  # base64


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures of one attack on one run are drawn from (first seed)."""

    attack: str
    adversary: str
    game: str
    defence: dict[str, Any] | None
    control: str | None
    adaptive: bool = False
    users: list[PerUser]  # most identifiable first; empty where users are not what is asked for
    recall: list[float]  # precision-recall curve over all pairs of question and option, recall ascending
    precision: list[float]
    null: list[float]  # the headline metric under each permutation of identities, mean over seeds
    confusion_users: list[str]  # the most and the least identifiable users
    confusion: list[list[float]]  # row: true user, column: answered user, share of that user's updates
    values: list[PerValue] = []  # of an attribute, commonest first
    claims: ScoreHistogram | None = None  # where the answer is yes or no
    records: list[PerRecord] = []  # where records are asked for
    quality: list[Quality] = []  # where images are asked for
    grids: list[Grid] = []  # and some of them; in the report only, results.json has none


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One line, set of points or set of bars of a figure."""

    name: str
    x: list[float]
    y: list[float]
    low: list[float] | None = None  # interval of each y
    high: list[float] | None = None
    labels: list[str] | None = None  # of each point, shown when it is pointed at
    reference: bool = False  # a level to compare with (chance, for instance), drawn dashed and without points


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of an analysis as numbers; the reports draw it."""

    kind: Literal["lines", "scatter", "bars", "heatmap"]
    title: str
    x_label: str
    y_label: str
    series: list[Series] = []  # of lines, points or bars
    x_ticks: list[str] | None = None  # names of the whole numbers 0, 1, 2, ... on the x axis; columns of a heatmap
    y_ticks: list[str] | None = None  # rows of a heatmap
    cells: list[list[float | None]] | None = None  # of a heatmap, by row
    diagonal: bool = False  # draw x = y
    log_x: bool = False


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What `fedleak analyse` found about one question."""

    name: str
    title: str
    text: str  # what was done and what it shows, for people who never read the paper
    columns: list[str]  # of the table of numbers
    rows: list[list[str | float | None]]
    figures: list[Figure] = []


class Threat(msgspec.Struct, frozen=True, kw_only=True):
    """An adversary in words."""

    name: str
    summary: str
    sees: list[str]
    cannot_see: list[str]
    capabilities: list[str]


class Untested(msgspec.Struct, frozen=True, kw_only=True):
    """Something this audit says nothing about, and why."""

    what: str
    why: str


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an audit found."""

    title: str
    story: str  # the plan's own words on what is audited, for people who never saw it
    created: str  # ISO 8601, UTC
    source: str  # what data
    population: dict[str, Any]  # users, examples, prior, split: numbers for the report
    federation: dict[str, Any]  # model, parameters, rounds, settings
    findings: list[Finding]
    threats: list[Threat]
    attacks: dict[str, str]  # name -> one sentence on how it works
    games: dict[str, str] = {}  # name -> the question in plain words
    defences: dict[str, str]  # name -> one sentence on what it does
    warnings: list[str] = []  # what must be read before any verdict: a control that is off, a split that misleads
    controls: dict[str, list[str]] = {}  # game -> the controls under which it has nothing to find
    scores: list[Score]
    details: list[Detail]
    effects: list[Effect] = []  # of each defence
    promises: list[Promised] = []
    tradeoffs: list[Tradeoff] = []  # where defences were tried
    failures: list[Failure] = []
    analyses: list[Analysis] = []
    untested: list[Untested]
    plan: str  # the plan file as it was run
    resolved: dict[str, Any]  # the same with every default filled in
    environment: dict[str, str]  # versions, machine, seconds
    schema: int = SCHEMA
