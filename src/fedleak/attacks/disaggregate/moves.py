"""Solve the moves of the shared model for the mean update of each client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedleak.attacks.disaggregate.ridge import DisaggregateRidge
from fedleak.core import FloatArray, Observation
from fedleak.views.view import View

__all__ = ["DisaggregateMoves"]


@dataclass(frozen=True, kw_only=True)
class DisaggregateMoves(DisaggregateRidge):
    """The regression of `disaggregate-ridge` on the differences of successive shared models.

    The server adds the mean of a round to the model. So neither secure aggregation nor an enclave that keeps the sum to
    itself hides it from anyone who has two models: what they add up is published as the next model.
    """

    name: ClassVar[str] = "disaggregate-moves"
    summary: ClassVar[str] = (
        "Solves the moves of the shared model for the mean update of each client, given which clients took part (ridge "
        "regression)."
    )
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.SELECTION

    def read_sum(self, view: View, number: int, layer: str) -> FloatArray:
        """How far one layer of the shared model moved in a round."""
        return view.snapshot(number)[layer] - view.snapshot(number - 1)[layer]
