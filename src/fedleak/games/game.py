"""What a game is: the questions, the options and the right answers, fixed before any attack runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from fedleak.core import IntArray
from fedleak.trace.prior import Prior
from fedleak.trace.reader import Trace
from fedleak.trace.truth import Truth

__all__ = ["Questions", "Answers", "Asked", "Game"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What an attack is asked: for each of these, a score for every option.

    Games with more to say about a question derive their own from this.
    """

    updates: IntArray  # (questions,) rows of the view's updates; (questions, 2) where pairs of updates are asked about
    options: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.updates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The right option of every question, and who it is about; kept from the attacks."""

    right: IntArray  # (questions,) index into the options; where there is one option, 1 for yes and 0 for no
    who: IntArray  # (questions,), or (questions, 2) for pairs: index into `people`, whom intervals resample
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One playing of a game: what the attack is given, and what it is marked against."""

    questions: Questions
    answers: Answers
    prior: Prior  # what of the prior data the adversary has in this game
    shadow: IntArray  # (updates of the trace,): which of that prior's candidates an update stands for; -1: nobody's


class Game(Protocol):
    """A frozen dataclass of a game's settings."""

    name: ClassVar[str]
    summary: ClassVar[str]  # the question in plain words
    metrics: ClassVar[tuple[str, ...]]  # the first is the one that verdicts are about

    def ask(self, trace: Trace, truth: Truth, prior: Prior, rng: np.random.Generator) -> Asked:
        """Draw the questions; the same generator gives the same ones."""
        ...
