"""What a game is: questions and right answers, fixed before any attack runs, and all that belongs to its scores.

A game owns its life. It draws the questions, says how predictions are scored and which controls have nothing to find,
puts its headline into words, chooses columns, figures and details for the report, and writes the traces on which
attacks are held to the contract. No other module asks which game it has before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fedleak.core import Capability, IntArray, Observation
from fedleak.errors import AttackError
from fedleak.federation.hooks import Defence
from fedleak.metrics.attack_result import Answers, AttackResult, Predictions
from fedleak.metrics.metric import Metric
from fedleak.results.audit import Score
from fedleak.results.detail import DetailParts, Figure
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary
from fedleak.views.view import View

__all__ = [
    "Predictions",
    "Questions",
    "Answers",
    "GameInstance",
    "Game",
    "BaseGame",
    "OptionGame",
    "Headline",
    "Contract",
    "Needs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What an attack is asked: for each of these, a score for every option.

    Games with more to say about a question derive their own from this.
    """

    updates: IntArray  # (questions,) rows of the view's updates; (questions, 2) where pairs of updates are asked about
    options: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.updates)

    @property
    def choices(self) -> int:
        """How many answers there are to choose from."""
        return len(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInstance:
    """One playing of a game: what the attack is given, and what it is marked against."""

    questions: Questions
    answers: Answers
    prior: Prior  # what of the prior data the adversary has in this game
    shadow: IntArray  # (updates of the trace,): which of that prior's candidates an update stands for; -1: nobody's
    # Client -> the record that was placed in its data; the view shows it only to adversaries that can inject records.
    injected: Mapping[str, str] = field(default_factory=dict)
    every: int = 1  # the adversary has only every k-th snapshot, and the last
    everything: bool = False  # updates that are not asked about are seen too

    def look(
        self,
        trace_folder: Path,
        adversary: Adversary,
        *,
        shuffled: np.random.Generator | None = None,
        defences: Sequence[Defence] = (),
    ) -> tuple[View, Questions]:
        """The view in which the questions are asked, and the questions by the rows of that view.

        Updates that are neither labelled nor asked about are in the trace for the experiment's sake only: clients on
        the prior data of users of whom this adversary has none, labelled updates beyond the number it is given. To
        see them, and that they are not asked about, would tell who is a stranger.
        """
        if not self.questions.updates.size:
            view = View(
                trace_folder,
                adversary,
                self.shadow,
                injected=self.injected,
                every=self.every,
                shuffled=shuffled,
                defences=defences,
            )
            return view, self.questions
        shown = (self.shadow >= 0) | self.everything
        shown[self.questions.updates] = True
        rows = np.flatnonzero(shown)
        questions = replace(self.questions, updates=np.searchsorted(rows, self.questions.updates))
        everything = len(rows) == len(self.shadow)
        view = View(
            trace_folder,
            adversary,
            self.shadow[rows],
            rows=None if everything else rows,
            injected=self.injected,
            shuffled=shuffled,
            defences=defences,
        )
        return view, questions


class Headline(NamedTuple):
    """What the scores of one attack come to, for people who never saw such a number."""

    number: str  # to be printed large
    sentence: str


class Needs(Protocol):
    """What an attack declares that it takes."""

    needs: ClassVar[Observation]
    capabilities: ClassVar[Capability]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How attacks on a game are held to the contract."""

    game: Game
    write: Callable[[Path, int, bool], Path]  # folder, seed, with a planted leak or without: the folder of a run
    metric: str  # above chance where a leak is planted, at chance where not
    seeds: int = 2  # with a planted leak
    finds: bool = True  # False: an attack with these needs can tell nothing apart, and must not seem to


class Game(Protocol):
    """A frozen dataclass of a game's settings; derive from `BaseGame` or `OptionGame` for the usual behaviour."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words
    metrics: ClassVar[tuple[Metric, ...]]  # the first is the headline metric, which verdicts are about
    needs_prior: ClassVar[bool | None]  # True: the adversary has data of users; False: none; None: either
    needs_evidence: ClassVar[bool]  # whether predictions are marked against users' data, which the truth then keeps
    allows_join: ClassVar[bool]  # whether it can be played where a client of the adversary takes part
    strongest: ClassVar[str | None]  # the attack without which no defence is recommended, if one is the strongest
    multiples: ClassVar[bool]  # whether multiples of chance say something
    legend: ClassVar[str]  # what the heads of its columns mean, where they do not say it themselves

    @property
    def controls(self) -> tuple[str, ...]:
        """The controls under which there is nothing to find; the first is the default of a plan."""
        ...

    @property
    def note(self) -> str:
        """What a report must say beside the question; nothing if empty."""
        ...

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the questions; the same generator gives the same ones."""
        ...

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Refuse predictions that do not answer every question; return them as they are kept on disk."""
        ...

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """Put the scores of one attack, by metric, into words; None: the headline metric and its chance level do."""
        ...

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """What the report shows of one attack on one run; `played` has one entry for each seed."""
        ...

    def figures(self, scores: Sequence[Score]) -> list[tuple[Figure, str]]:
        """Figures, with captions, about all attacks of one adversary on the undefended run."""
        ...

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """The traces that an attack on this game is held to."""
        ...


class BaseGame:
    """What most games have in common."""

    needs_prior: ClassVar[bool | None] = True
    needs_evidence: ClassVar[bool] = False
    allows_join: ClassVar[bool] = False
    strongest: ClassVar[str | None] = None
    multiples: ClassVar[bool] = True
    legend: ClassVar[str] = ""

    @property
    def controls(self) -> tuple[str, ...]:
        """Where nobody's data is personal there is nothing to find."""
        return ("iid",)

    @property
    def note(self) -> str:
        """Nothing but the question needs saying."""
        return ""

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """The headline metric and its chance level say enough."""
        return None

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Nothing beyond the scores."""
        return DetailParts()

    def figures(self, scores: Sequence[Score]) -> list[tuple[Figure, str]]:
        """None."""
        return []


class OptionGame(BaseGame):
    """What games have in common whose predictions are a score for every question and option."""

    metrics: ClassVar[tuple[Metric, ...]]

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Refuse predictions that do not answer every question with a finite score."""
        if claims.shape != (len(questions), len(questions.options)):
            raise AttackError(
                f"attack '{attack}' answered with an array of shape {claims.shape}; "
                f"{len(questions)} questions and {len(questions.options)} options were asked"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all():
            raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} scores that are not finite")
        return claims

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Precision over recall, and how high the scores are where the answer is yes and where it is no."""
        from fedleak.metrics.detail import yes_no

        return yes_no(played[0])

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """Users whose updates carry a signature; for attacks that train the shared model further, a federation."""
        from fedleak.games.traces.users import write_for

        return Contract(game=cls.for_contract(), write=write_for(attack.needs), metric=cls.metrics[0].name)

    @classmethod
    def for_contract(cls) -> Any:
        """The game with settings that fit the traces of the contract."""
        return cls()
