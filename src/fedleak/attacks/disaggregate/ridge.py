"""Solve the sums of all rounds for the mean update of each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.work import by_used_rounds
from fedleak.core import Capability, FloatArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.games.disaggregate import MeanQuestions
from fedleak.games.game import Predictions, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["DisaggregateRidge", "estimate"]

Matrix = npt.NDArray[np.float64]

_STRENGTHS = 10.0 ** np.arange(-4, 4)  # of the penalty, in units of the squared singular values' mean


@dataclass(frozen=True, kw_only=True)
class DisaggregateRidge:
    """Ridge regression of the sums on who took part (gradient disaggregation; Lam et al., 2021).

    With as many rounds as clients there are as many equations as unknowns. The solution is blurred because updates
    change from round to round, and because this adversary does not know how many examples each client has.
    """

    name: ClassVar[str] = "disaggregate-ridge"
    summary: ClassVar[str] = (
        "Solves the sums of all rounds for the mean update of each client, given which clients took part (ridge "
        "regression)."
    )
    game: ClassVar[str] = "disaggregate"
    needs: ClassVar[Observation] = Observation.AGGREGATE | Observation.SELECTION
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_used_rounds

    rounds: Annotated[int, Meta(ge=2, description="use only the sums of the first rounds; all if absent")] | None = None

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> Predictions:
        """One estimate for every client that is asked about."""
        if not isinstance(questions, MeanQuestions):
            raise AttackError("this attack answers the questions of the game 'disaggregate' only")
        rounds = range(1, min(view.rounds, self.rounds or view.rounds) + 1)
        selected = [view.selection(number) for number in rounds]
        clients = sorted({client for present in selected for client in present} | set(questions.clients))
        place = {client: column for column, client in enumerate(clients)}
        shares = np.zeros((len(selected), len(clients)))
        for row, present in enumerate(selected):
            # The adversary does not see how many examples each client has, so it assumes equal shares.
            shares[row, [place[client] for client in present]] = 1 / max(1, len(present))
        sums = np.stack([self.read_sum(view, number, questions.layer) for number in rounds]).astype(np.float64)
        return estimate(shares, sums)[[place[client] for client in questions.clients]]

    def read_sum(self, view: View, number: int, layer: str) -> FloatArray:
        """What the server is told of a round: one layer of the mean of its updates."""
        return view.aggregate(number)[layer]


def estimate(shares: Matrix, sums: Matrix) -> Matrix:
    """Solve sums = shares @ updates for the updates, (clients, size), up to what all have in common.

    Ridge regression with an intercept; its strength is that of the least generalised cross-validation error (Golub,
    Heath and Wahba, 1979), which needs nothing but the sums.
    """
    a, y = shares - shares.mean(0), sums - sums.mean(0)
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    projected = u.T @ y
    outside = float(np.square(y).sum() - np.square(projected).sum())
    best, chosen = np.inf, np.zeros((shares.shape[1], sums.shape[1]))
    for strength in _STRENGTHS * max(float(np.mean(s**2)), 1e-300):
        kept = s**2 / (s**2 + strength)
        error = outside + float(np.square((1 - kept)[:, None] * projected).sum())
        freedom = len(y) - 1 - kept.sum()
        score = error / freedom**2 if freedom > 0 else np.inf
        if score < best:
            best, chosen = score, vt.T @ ((s / (s**2 + strength))[:, None] * projected)
    return chosen
