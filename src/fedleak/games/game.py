"""What a game is: questions and true answers, fixed before any attack runs, and everything about its scores.

A game draws the questions, defines how predictions are scored and which controls have nothing to find, words its
headline, chooses columns, figures and details for the report, and writes the traces of the attack contract. No other
module depends on which game it handles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from fedleak.core import Capability, IntArray, Observation
from fedleak.errors import AttackError
from fedleak.federation.hooks import Defence
from fedleak.metrics.attack_result import Answers, AttackResult, Predictions
from fedleak.metrics.metric import Metric
from fedleak.results.audit import Score
from fedleak.results.criteria import Criterion
from fedleak.results.detail import DetailParts, Figure
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import Adversary
from fedleak.views.view import OwnModel, View

if TYPE_CHECKING:  # an attack that imports the game must not find the truth in it
    from fedleak.trace.truth import Truth

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
    """The questions for an attack: each needs a score for every option.

    Games whose questions have more fields subclass this.
    """

    updates: IntArray  # (questions,) rows of the view's updates; (questions, 2) where pairs of updates are asked about
    options: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.updates)

    @property
    def choices(self) -> int:
        """The number of possible answers."""
        return len(self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInstance:
    """One instance of a game: what the attack is given, and what its predictions are scored against."""

    questions: Questions
    answers: Answers
    prior: Prior  # the prior data that the adversary has in this game
    shadow: IntArray  # (updates of the trace,): the candidate in `prior` whose data trained an update; -1: none
    # Client -> the record injected into its data; the view shows it only to adversaries that can inject records.
    injected: Mapping[str, str] = field(default_factory=dict)
    every: int = 1  # the adversary has only every k-th snapshot, and the last
    everything: bool = False  # updates outside the questions are visible too
    hidden: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # updates that are not, even so

    def look(
        self,
        trace_folder: Path,
        adversary: Adversary,
        *,
        shuffled: np.random.Generator | None = None,
        defences: Sequence[Defence] = (),
        own_model: OwnModel | None = None,
        own_training: str | None = None,
    ) -> tuple[View, Questions]:
        """The view for the attack, and the questions by the rows of that view.

        Updates that are neither labelled nor in a question exist only for the experiment: shadow clients of users
        without prior data in this game, or labelled updates beyond the given number. The view hides them, because
        seeing them outside the questions would reveal which users are unseen.
        """
        questions, rows = self.questions, np.arange(len(self.shadow))
        if questions.updates.size:
            shown = (self.shadow >= 0) | self.everything
            shown[self.hidden] = False
            shown[questions.updates] = True
            rows = np.flatnonzero(shown)
            questions = replace(questions, updates=np.searchsorted(rows, questions.updates))
        view = View(
            trace_folder,
            adversary,
            self.shadow[rows],
            rows=None if len(rows) == len(self.shadow) else rows,
            injected=self.injected,
            every=self.every,
            shuffled=shuffled,
            defences=defences,
            own_model=own_model,
            own_training=own_training,
        )
        return view, questions


class Headline(NamedTuple):
    """The scores of one attack in plain words, for readers who do not know the metric."""

    number: str  # printed large
    sentence: str


class Needs(Protocol):
    """The observations and capabilities that an attack declares."""

    needs: ClassVar[Observation]
    capabilities: ClassVar[Capability]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """How attacks on a game are tested against the contract."""

    game: Game
    write: Callable[[Path, int, bool], Path]  # folder, seed, whether to plant a leak -> the folder of a run
    metric: str  # above chance with a planted leak, at chance without
    seeds: int = 2  # with a planted leak
    least: float = 0.0  # of the metric with a planted leak: where chance is next to nothing, one lucky guess exceeds it
    # False: an attack with these needs cannot tell users apart, and must be at chance. Its predictions must then show
    # which federation it has observed.
    finds: bool = True


class Game(Protocol):
    """A frozen dataclass of a game's settings; derive from `BaseGame` or `OptionGame` for the usual behaviour."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words
    criteria: ClassVar[tuple[Criterion, ...]]  # of regulators, which the question is about; empty: not mapped
    metrics: ClassVar[tuple[Metric, ...]]  # the first is the headline metric, which verdicts are about
    needs_prior: ClassVar[bool | None]  # True: the adversary needs prior data; False: it must have none; None: either
    needs_owners: ClassVar[bool]  # False: its answers are in the trace, whoever the users are
    needs_evidence: ClassVar[bool]  # whether predictions are scored against users' data, which the truth then stores
    needs_members: ClassVar[bool]  # whether it asks about records that clients did or did not train on
    allows_join: ClassVar[bool]  # whether it works in a run with a malicious client
    strongest: ClassVar[str | None]  # the strongest attack, without which no defence is recommended; if there is one
    multiples: ClassVar[bool]  # whether multiples of chance are meaningful
    legend: ClassVar[str]  # explains the column headings that need it

    @property
    def controls(self) -> tuple[str, ...]:
        """The controls under which there is nothing to find; the first is the default of a plan."""
        ...

    @property
    def note(self) -> str:
        """A note that the report shows beside the question; none if empty."""
        ...

    @property
    def behind_question(self) -> str:
        """The question where many users are behind one client; empty if the game needs one user per client."""
        ...

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> GameInstance:
        """Draw the questions; deterministic given the generator."""
        ...

    def elsewhere(self, instance: GameInstance, mine: Trace, other: Trace, rng: np.random.Generator) -> GameInstance:
        """The same questions about another run, for the control `other-federation` of games that have it."""
        ...

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject predictions that do not answer every question; return them in the form stored on disk."""
        ...

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """The scores of one attack, by metric, in words; None: show the headline metric and its chance level."""
        ...

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """What the report shows about one attack on one run; `played` has one entry per seed."""
        ...

    def figures(self, scores: Sequence[Score]) -> list[tuple[Figure, str]]:
        """Figures, with captions, about all attacks of one adversary on the undefended run."""
        ...

    @classmethod
    def contract(cls, attack: Needs) -> Contract:
        """The traces on which attacks on this game are tested."""
        ...


class BaseGame:
    """Defaults that most games share."""

    criteria: ClassVar[tuple[Criterion, ...]] = ()
    needs_prior: ClassVar[bool | None] = True
    needs_evidence: ClassVar[bool] = False
    needs_members: ClassVar[bool] = False
    needs_data: ClassVar[tuple[str, ...]] = ()  # besides examples: attributes, background, images, records, traits
    needs_owners: ClassVar[bool] = True  # False: its answers are in the trace, whoever the users are
    # Where the adversary must have no prior data: it hides shadow clients if there are any, or says why it cannot.
    hides_prior: ClassVar[bool] = False
    no_prior: ClassVar[str] = ""
    allows_join: ClassVar[bool] = False
    allows_proxies: ClassVar[bool] = False
    strongest: ClassVar[str | None] = None
    multiples: ClassVar[bool] = True
    legend: ClassVar[str] = ""

    @property
    def controls(self) -> tuple[str, ...]:
        """Where no data is user-specific there is nothing to find."""
        return ("iid",)

    @property
    def note(self) -> str:
        """No note."""
        return ""

    @property
    def behind_question(self) -> str:
        """None: an update is that of one user."""
        return ""

    def headline(self, scores: Mapping[str, Score]) -> Headline | None:
        """Show the headline metric and its chance level."""
        return None

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Nothing beyond the scores."""
        return DetailParts()

    def elsewhere(self, instance: GameInstance, mine: Trace, other: Trace, rng: np.random.Generator) -> GameInstance:
        """Ask about a random client of the other run instead of each client in question; everything else stays."""
        rows = instance.questions.updates
        sender = np.asarray(other.client).astype(np.int64)
        there = rng.permutation(np.unique(sender))
        clients, place = np.unique(np.asarray(mine.client)[rows], return_inverse=True)
        drawn = [rng.choice(np.flatnonzero(sender == there[i % len(there)])) for i in range(len(clients))]
        return replace(
            instance,
            questions=replace(instance.questions, updates=np.asarray(drawn, dtype=np.int64)[place.reshape(rows.shape)]),
            shadow=np.full(len(other.round), -1, dtype=np.int64),
        )

    def figures(self, scores: Sequence[Score]) -> list[tuple[Figure, str]]:
        """None."""
        return []


class OptionGame(BaseGame):
    """Base of games whose predictions are a score for every question and option."""

    metrics: ClassVar[tuple[Metric, ...]]

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Reject predictions that do not answer every question with a finite score."""
        if claims.shape != (len(questions), len(questions.options)):
            raise AttackError(
                f"attack '{attack}' returned an array of shape {claims.shape}; "
                f"expected ({len(questions)} questions, {len(questions.options)} options)"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all():
            raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} scores that are not finite")
        return claims

    def detail(self, played: Sequence[AttackResult], scores: Mapping[str, Score]) -> DetailParts:
        """Precision over recall, and histograms of the scores where the answer is yes and where it is no."""
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
