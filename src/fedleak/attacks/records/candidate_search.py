"""Shared by the attacks on records: finding candidates, and the exposure of each.

The paper does not say where its candidates come from. A list that contains the answers would decide the result in
advance; here the format's most likely records are searched for under several snapshots, since a secret that is
memorised while its user is selected may be half forgotten at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.records.exposure_history import language
from fedleak.attacks.records.format_search import Space, likeliest
from fedleak.attacks.records.scoring import Scores, exposures, log_probabilities
from fedleak.attacks.work import by_rounds
from fedleak.core import Capability, IntArray, Params, Task
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Questions
from fedleak.views.view import View

__all__ = ["Searching", "Candidates", "spread", "named", "presence"]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates, and the exposure of each in some rounds."""

    records: tuple[str, ...]
    exposure: Scores  # (rounds, records), nats per character


@dataclass(frozen=True, kw_only=True)
class Searching:
    """The settings of a search."""

    snapshots: Annotated[
        int, Meta(ge=1, description="search this many snapshots, evenly spaced, the last included")
    ] = 5
    candidates: Annotated[int, Meta(ge=1, description="how many of the most likely records each search yields")] = 200
    limit: Annotated[
        int,
        Meta(ge=1, description="prefixes that a search may follow at once to prove that no more likely record exists"),
    ] = 5000

    name: ClassVar[str]
    game: ClassVar[str] = "extract"
    needs_model: ClassVar[str] = "any"
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = (Task.NEXT_TOKEN,)
    work = by_rounds

    def search(self, view: View, questions: Questions, rounds: Sequence[int], workers: int = 1) -> Candidates:
        """Find candidates, unless the game lists them, and score them under the snapshots of these rounds."""
        assert isinstance(questions, RecordQuestions)
        reader = language(view, questions.records.characters, questions.records.context)
        space = Space(questions.form, reader)
        yields = (self.under(space, view.snapshot(number)) for number in spread(view.rounds, self.snapshots))
        # A dictionary for a set that keeps its order.
        records = questions.listed or tuple(dict.fromkeys(record for found in yields for record in found))
        logs = log_probabilities(reader, (view.snapshot(n) for n in rounds), records, workers)
        return Candidates(records, exposures(logs, records))

    def under(self, space: Space, snapshot: Params) -> tuple[str, ...]:
        """What a search of one snapshot yields."""
        return likeliest(space, snapshot, self.candidates, limit=self.limit).records


def spread(rounds: int, count: int) -> list[int]:
    """`count` rounds, evenly spaced, the last included; fewer if there are not enough.

    >>> spread(120, 5), spread(2, 5)
    ([24, 48, 72, 96, 120], [1, 2])
    """
    places = np.linspace(0, rounds, count + 1)[1:].round().astype(int)
    return [int(place) for place in np.unique(places) if place > 0]


def named(questions: Questions, records: Sequence[str], orders: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Predictions: an order of the records for each client, best first."""
    assert isinstance(questions, RecordQuestions)
    spelt = questions.records.spell(records, questions.form.longest)
    claims = np.zeros((len(questions), questions.most, spelt.shape[1]), dtype=np.int32)
    kept = orders[:, : questions.most]
    claims[:, : kept.shape[1]] = spelt[kept]
    return claims


def presence(view: View, clients: Sequence[str]) -> IntArray:
    """Who took part in which round: (rounds, clients), 1 or 0; more where the snapshots of some rounds are missing."""
    selected = [Counter(view.selection(number)) for number in range(1, view.rounds + 1)]
    return np.array([[there[client] for client in clients] for there in selected], dtype=np.int64)
