"""What a game is: the questions, the options and the right answers, fixed before any attack runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fedleak.core import IntArray
from fedleak.errors import AttackError
from fedleak.trace.evidence import Evidence
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary
from fedleak.views.view import View

__all__ = ["Predictions", "Questions", "Answers", "GameInstance", "Game", "OptionGame"]

Predictions: TypeAlias = npt.NDArray[Any]
"""What an attack answers: plain numbers, (questions, ...); what they mean is for the game to say."""


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
class Answers:
    """The right option of every question, and who it is about; kept from the attacks."""

    # (questions,) index into the options; where there is one option, 1 for yes and 0 for no; where records are asked
    # for, (questions, characters) the record itself
    right: IntArray
    who: IntArray  # (questions,), or (questions, 2) for pairs: index into `users`, whom intervals resample
    users: tuple[str, ...]
    # (questions, 2), where one is to be found among many: how many rounds apart these are, and a number for each such
    # search, over all questions that belong to it
    gallery: IntArray | None = None
    evidence: Evidence | None = None  # users' data, where images are marked against it
    judged: tuple[str, ...] = ()  # a property that images are judged by, and its value for each of the users


@dataclass(frozen=True, slots=True, kw_only=True)
class GameInstance:
    """One playing of a game: what the attack is given, and what it is marked against."""

    questions: Questions
    answers: Answers
    prior: Prior  # what of the prior data the adversary has in this game
    shadow: IntArray  # (updates of the trace,): which of that prior's candidates an update stands for; -1: nobody's
    # Client -> the record that was placed in its data; for the view, which shows it only to who has the power.
    injected: Mapping[str, str] = field(default_factory=dict)
    every: int = 1  # the adversary has only every k-th snapshot, and the last
    everything: bool = False  # updates that are not asked about are seen too

    def look(self, trace_folder: Path, adversary: Adversary, **means: Any) -> tuple[View, Questions]:
        """The view in which the questions are asked, and the questions by the rows of that view.

        Updates that are neither labelled nor asked about are in the trace for the experiment's sake only: clients on
        the prior data of users of whom this adversary has none, labelled updates beyond the number it is given. To
        see them, and that they are not asked about, would tell who is a stranger.
        """
        if not self.questions.updates.size:
            given = {"injected": self.injected, "every": self.every, **means}
            return View(trace_folder, adversary, self.shadow, **given), self.questions
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
            **means,
        )
        return view, questions


class Game(Protocol):
    """A frozen dataclass of a game's settings."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words
    metrics: ClassVar[tuple[str, ...]]  # shares; the first is the one that verdicts are about
    distances: ClassVar[tuple[str, ...]]  # lower-is-better metrics
    needs_prior: ClassVar[bool]  # whether the adversary must have data of users; if not, it must have none
    strongest: ClassVar[str | None]  # the attack without which no defence is recommended, if one is the strongest

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
        """Refuse claims that do not answer every question; return them as they are kept on disk."""
        ...


class OptionGame:
    """What games have in common whose claims are a score for every question and option."""

    distances: ClassVar[tuple[str, ...]] = ()
    needs_prior: ClassVar[bool] = True
    strongest: ClassVar[str | None] = None

    @property
    def controls(self) -> tuple[str, ...]:
        """Where nobody's data is personal there is nothing to find."""
        return ("iid",)

    @property
    def note(self) -> str:
        """Nothing but the question needs saying."""
        return ""

    def check(self, claims: Predictions, questions: Questions, attack: str) -> Predictions:
        """Refuse claims that do not answer every question with a finite score."""
        if claims.shape != (len(questions), len(questions.options)):
            raise AttackError(
                f"attack '{attack}' answered with an array of shape {claims.shape}; "
                f"{len(questions)} questions and {len(questions.options)} options were asked"
            )
        claims = claims.astype(np.float32, copy=False)
        if not np.isfinite(claims).all():
            raise AttackError(f"attack '{attack}' gave {int((~np.isfinite(claims)).sum())} scores that are not finite")
        return claims
