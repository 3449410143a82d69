"""What an attack is: declared needs, and one method from its adversary's view to predictions."""

from __future__ import annotations

from typing import ClassVar, Protocol

from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, Observation, Task
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Attack"]


class Attack(Protocol):
    """A frozen dataclass of its settings; it never sees the truth and never scores itself.

    One that simulates clients may set `imitates = True`: it is then also run as a defence-aware attacker. One that
    cannot do without building the model sets `needs_model`: to "any", or to "built-in" where it changes the model's
    outputs. A plan whose model it cannot build is then refused before training.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence with a third-person verb and the term of art
    game: ClassVar[str]
    needs: ClassVar[Observation]
    capabilities: ClassVar[Capability]
    tasks: ClassVar[tuple[Task, ...]]

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Answer as the game asks: where there are options, with a finite score for every question and option."""
        ...
