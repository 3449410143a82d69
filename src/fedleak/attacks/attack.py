"""What an attack is: declared needs, and one method from what its adversary sees to claims."""

from __future__ import annotations

from typing import ClassVar, Protocol

from fedleak.attacks.context import AttackContext
from fedleak.core import Capability, Observation, Task
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Attack"]


class Attack(Protocol):
    """A frozen dataclass of its settings; it never sees the truth and never marks its own work.

    One that trains clients of its own may set `imitates = True`: it is then played once more knowing of the defences.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence for people who never read the paper
    game: ClassVar[str]
    needs: ClassVar[Observation]
    capabilities: ClassVar[Capability]
    tasks: ClassVar[tuple[Task, ...]]

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """Answer as the game asks: where there are options, with a finite score for every question and option."""
        ...
