"""What a game has to show of one attack beyond its scores: users, curves, tables, images, figures as numbers."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fedleak.results.users import UserTail

__all__ = [
    "PerUser",
    "PerValue",
    "ScoreHistogram",
    "PerRecord",
    "Quality",
    "Grid",
    "Series",
    "Figure",
    "Table",
    "DetailParts",
    "Detail",
]


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
    log_y: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of a report: cells are numbers or text."""

    caption: str
    columns: list[str]
    rows: list[list[str | float | None]]


class DetailParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a game has to show of one attack on one run (first seed), beyond its scores; empty parts are left out."""

    users: list[PerUser] = []  # most identifiable first
    recall: list[float] = []  # precision-recall curve over all pairs of question and option, recall ascending
    precision: list[float] = []
    confusion_users: list[str] = []  # the most and the least identifiable users
    confusion: list[list[float]] = []  # row: true user, column: answered user, share of that user's updates
    values: list[PerValue] = []  # of an attribute, commonest first
    claims: ScoreHistogram | None = None  # where the answer is yes or no
    records: list[PerRecord] = []  # where records are asked for
    quality: list[Quality] = []  # where images are asked for
    grids: list[Grid] = []  # and some of them; in the report only, results.json has none
    tables: list[Table] = []  # anything else
    figures: list[Figure] = []


class Detail(DetailParts, frozen=True, kw_only=True):
    """The same with what it belongs to."""

    attack: str
    adversary: str
    game: str
    defence: dict[str, Any] | None
    control: str | None
    adaptive: bool = False
    null: list[float]  # the headline metric under each permutation of identities, mean over seeds
    user_tail: UserTail | None = None  # single users, over all seeds; None where the game does not score them
