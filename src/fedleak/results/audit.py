"""The result of an audit: what `results.json` holds, and the only thing that the reports read.

The schema is versioned and documented in docs/reference/results.md. Adding a key keeps the version; removing one or
changing a meaning raises it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fedleak.federation.ledger import Spending
from fedleak.population.data_quality import Finding
from fedleak.results.budget import Budget
from fedleak.results.criteria import Criterion, Phase
from fedleak.results.defence_results import Effect, Failure, Promised, Tradeoff
from fedleak.results.detail import Detail, Figure

__all__ = [
    "SCHEMA",
    "Utility",
    "Score",
    "MetricInfo",
    "GameInfo",
    "GameFigure",
    "Analysis",
    "Finding",
    "Threat",
    "Untested",
    "NotRun",
    "Audit",
]

SCHEMA = 4


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
    low: float  # interval, resampled by user; with several seeds it includes the variation between runs
    high: float
    level: float  # of the interval, for instance 0.95
    chance: float  # the mean of the same metric with identities permuted, or blind guessing if that is more
    chance_high: float  # the 97.5th percentile of the same; of a distance the 2.5th
    chance_low: float | None = None  # the 2.5th percentile of the same; of a distance the 97.5th
    multiple: float | None  # value / chance; None where chance is 0
    n: int  # questions asked
    users: int  # users in the questions, over all seeds, which the interval resamples
    clients: int | None = None  # where many users are behind one client: the clients, which it resamples instead
    unit: str = "user"  # what is asked for: user, or client, with all users behind it
    options: int  # users, or values, to choose from in one question; 1 where the answer is yes or no
    seeds: list[int]
    defence: dict[str, Any] | None = None  # {"name": ..., settings ...}
    adaptive: bool = False  # the adversary knows of the defence and imitates it
    # "iid": the same audit of users with nothing personal in their data; "fresh-data": the same, and every client
    # trains on other examples in every round; "decoys": the same claims marked against
    # records that nobody holds; "shuffled-selection": the same attack, told in the wrong order which clients took part;
    # "swapped-secrets": the same claims, each client's marked against the secret of another one's owner
    # and which of its own records stands where; "other-federation": the same questions, asked of another seed's run
    control: str | None = None
    utility: Utility | None = None
    limit: float | None = None  # the plan's limit for this metric, if it has one
    exceeded: bool = False  # the interval's lower end is above the limit
    verdict: str = ""  # one sentence: what was shown
    headline: bool = False  # this metric is the one that verdicts about its game are about
    leaks: bool | None = None  # whether a leak was shown; None: no verdict, because too few users are asked about
    p: float | None = None  # of the permutation test, corrected for all attacks on the question (max statistic)
    all_low: float | None = None  # interval that holds for all attacks on the question at once, so for the one picked
    all_high: float | None = None
    advantage: float | None = None  # share of what can be known beyond chance: (value - chance) / (1 - chance)
    by_seed: list[float] = []  # the value of each seed, without seeds in which the metric is undefined
    distance: bool = False  # not a share but a distance: the smaller, the more is given away
    number: str = ""  # of a headline score: the one number to print large
    in_words: str = ""  # of a headline score: what was found, in a sentence for people who never saw such a number


class MetricInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a metric is called, and what it means."""

    name: str
    title: str  # in full
    short: str  # in a table
    text: str  # what it means
    column: str = ""  # head of its column beside the headline metric; without one it is not shown there
    percent: bool = False  # written as a percentage in that column
    tabled: bool = False  # shown in a table of the game's own


class GameInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a game asks, and how its scores are shown."""

    question: str  # in plain words
    unit: str = "user"  # what is asked for: user, or client, with all users behind it
    controls: list[str]  # the controls under which it has nothing to find
    metrics: list[MetricInfo] = []  # the headline metric first
    multiples: bool = True  # whether multiples of chance say something
    legend: str = ""  # what the heads of its columns mean
    criteria: list[Criterion] | None = None  # of regulators, which its question is about; none: not mapped
    prior: bool | None = None  # whether the adversary needs prior data for it; None: it may have some


class GameFigure(msgspec.Struct, frozen=True, kw_only=True):
    """A figure about all attacks of one adversary on the undefended run."""

    adversary: str
    game: str
    caption: str
    figure: Figure


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
    attacks_on: Phase | None = None  # what clients send during training, or the shared model


class Untested(msgspec.Struct, frozen=True, kw_only=True):
    """Something this audit says nothing about, and why."""

    what: str
    why: str
    needs: str = ""  # what testing it would take; the report groups by it


class NotRun(msgspec.Struct, frozen=True, kw_only=True):
    """The strongest attack on a question, which the adversary could run and the plan does not."""

    adversary: str
    game: str
    attack: str


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
    isolation: dict[str, str] = {}  # name -> what confined its process, in every run; a sentence where nothing did
    attack_seconds: dict[str, float] = {}  # name -> computing time on one undefended run, the longest of all seeds
    games: dict[str, GameInfo] = {}  # by name, with settings where the plan has one twice
    defences: dict[str, str]  # name -> one sentence on what it does
    warnings: list[str] = []  # what must be read before any verdict: a control that is off, a split that misleads
    scores: list[Score]
    details: list[Detail]
    figures: list[GameFigure] = []
    effects: list[Effect] = []  # of each defence
    promises: list[Promised] = []
    spendings: list[Spending] = []  # what clients have spent of each statement, in each seed
    budgets: list[Budget] = []  # the plan's limits on it
    tradeoffs: list[Tradeoff] = []  # where defences were tried
    failures: list[Failure] = []
    not_run: list[NotRun] = []
    analyses: list[Analysis] = []
    untested: list[Untested]
    plan: str  # the plan file as it was run
    resolved: dict[str, Any]  # the same with every default filled in
    environment: dict[str, str]  # versions, machine, seconds
    versions: dict[str, str] = {}  # SHA-256 of the data, the plan, its settings and the code
    named: bool = False  # users have their names, not pseudonyms; never in results.json
    settings: dict[str, dict[str, str]] = {}  # defence -> setting -> what it means
    schema: int = SCHEMA

    @property
    def over_limit(self) -> bool:
        """Whether a limit of the plan is exceeded: by a score, or by the epsilon that was spent."""
        return any(score.exceeded for score in self.scores) or any(budget.exceeded for budget in self.budgets)
