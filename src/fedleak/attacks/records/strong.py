"""An attack on records that fades later than the paper's: the rank of the final exposure no longer counts.

Where many people hold secrets of one format, the paper's sum of ranks fades (Yuan et al., 2021, Fig. 4c): the final
exposure counts as much as the correlation, and it favours whoever was selected last. Here, more candidates are searched
for under many more snapshots, since a secret is best known right after its owner took part. A record's changes are
regressed on the presence of all devices together, so that a device is not credited with what its companions of the same
rounds brought. And the evidence is added up in one currency, log-likelihood: how much better the changes are explained
by this device taking part, and how likely the model found the record at its best. The first counts half, because what
a model learns in one round it partly forgets in the next, so that changes are not independent; in trials with 4 and 16
clients a secret otherwise lost to records that differ from it in one digit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.searching import Searching, named, presence
from fedleak.core import IntArray, Sight
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Claims, Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["EavesdropStrong", "evidence"]


@dataclass(frozen=True, kw_only=True)
class EavesdropStrong(Searching):
    """Regress each record's changes on everybody's presence, and add what the model itself says of the record."""

    snapshots: Annotated[
        int, Meta(ge=1, description="search this many snapshots, evenly spaced, the last included")
    ] = 40
    candidates: Annotated[int, Meta(ge=1, description="how many of the likeliest records each search yields")] = 1000
    limit: Annotated[
        int,
        Meta(ge=1, description="beginnings that a search may follow at once to prove that nothing likelier was missed"),
    ] = 1000
    weight: Annotated[
        float, Meta(gt=0, description="how much the evidence of the changes counts beside the record's likelihood")
    ] = 0.5

    name: ClassVar[str] = "eavesdrop-strong"
    summary: ClassVar[str] = (
        "Explains how the model learns and forgets each record by all devices that took part at once, and names for "
        "each device the records that it explains best."
    )
    needs: ClassVar[Sight] = Sight.SNAPSHOTS | Sight.SELECTION

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> Claims:
        """Rank by the evidence that a device holds a record."""
        assert isinstance(questions, RecordQuestions)
        found = self.search(view, questions, range(view.rounds + 1))
        others = {device for number in range(1, view.rounds + 1) for device in view.selection(number)}
        everybody = [*questions.devices, *sorted(others - set(questions.devices))]
        gained = evidence(presence(view, everybody), np.diff(found.exposure, axis=0))[: len(questions)]
        lengths = np.array([len(record) for record in found.records])
        likely = found.exposure.max(axis=0) * lengths
        return named(questions, found.records, np.argsort(-(self.weight * gained + likely), axis=1, kind="stable"))


def evidence(there: IntArray, changes: Scores) -> Scores:
    """How much likelier each record's changes are (nats) if they depend on each device: (devices, records).

    Half the square of the coefficient's t-value, negative where a record is forgotten when the device takes part. As
    many devices take part in every round, so presences add up to a constant and only differences between devices can
    be told: coefficients are taken against their mean.
    """
    rounds, devices = there.shape
    design = np.column_stack([np.ones(rounds), there])
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ changes
    left = changes - design @ coefficients
    freedom = max(1, rounds - int(np.linalg.matrix_rank(design)))
    variance = (left**2).sum(axis=0) / freedom
    spread = np.sqrt(np.outer((inverse**2).sum(axis=1)[1:], variance))
    slopes = coefficients[1:] - coefficients[1:].mean(axis=0)
    t = np.divide(slopes, spread, out=np.zeros((devices, changes.shape[1])), where=spread > 1e-12)
    return np.asarray(np.sign(t) * t**2 / 2)
