"""Matching with the evidence of `reid-strong`: similarity of two updates where within-user variation is whitened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.layer_features import Read, read_layers
from fedleak.attacks.deanonymize.strong import SHRINK, sides
from fedleak.attacks.deanonymize.wccn import templates, variation
from fedleak.attacks.match.pairs import require_pairs
from fedleak.attacks.work import by_snapshots
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.lazy import scipy
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["MatchStrong", "fit_weights"]

Table = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_RIDGE = 1e-3


@dataclass(frozen=True, kw_only=True)
class MatchStrong:
    """Retrain on the prior data, whiten within-user variation (WCCN), and compare two updates.

    Every layer and every degree of whitening is one kind of evidence. How much each counts is learnt on pairs of the
    adversary's own updates that resemble the pairs in question: of two halves of a user's data where one update is of
    prior data, of the same half where both are anonymous.
    """

    name: ClassVar[str] = "match-strong"
    summary: ClassVar[str] = (
        "Compares two updates after whitening within-user variation, learnt by retraining on prior data (WCCN)."
    )
    game: ClassVar[str] = "match"
    needs: ClassVar[Observation] = Observation.UPDATES | Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_snapshots

    snapshots: Annotated[
        int, Meta(ge=0, description="number of snapshots on which the prior data is retrained; 0: none")
    ] = 12
    divisions: Annotated[int, Meta(ge=1, description="number of ways in which a user's prior data is halved")] = 2
    dims: Annotated[int, Meta(ge=64, description="principal components kept of an update, over all layers")] = 2048

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every pair by the weighted similarity of its two updates."""
        require_pairs(questions)
        rows, index = np.unique(questions.updates, return_inverse=True)
        index = index.reshape(questions.updates.shape)
        data = read_layers(
            view,
            prior,
            Questions(updates=rows, options=questions.options),
            context,
            snapshots=self.snapshots,
            divisions=self.divisions,
            dims=self.dims,
        )
        # Of a labelled update it knows the user, so all that it has of that user stands for it.
        user = view.updates.shadow[questions.updates[:, 0]]
        weights = fit_weights(*_trials(data, not (user >= 0).any(), context.rng))
        score = np.zeros(len(index))
        for weight, (layer, vary, shrink) in zip(weights, _kinds(data), strict=True):
            part, varying = data.naming[layer], data.defended == vary
            look = variation(part.train[varying], data.who[varying]).whitening(shrink)
            asked = look(part.asked)
            first, second = asked[index[:, 0]], asked[index[:, 1]]
            if (user >= 0).any():
                means, who = templates(look(part.train[~data.defended]), data.who[~data.defended])
                named = np.isin(user, who)
                first[named] = means[np.searchsorted(who, user[named])]
            score += weight * np.einsum("qd,qd->q", first, second)
        return score.astype(np.float32)[:, None]


def _kinds(data: Read) -> list[tuple[str, bool, float]]:
    """Layer, whether defended updates say what to whiten, and how little it is whitened."""
    ways = sorted({vary for vary, _ in sides(data)})
    return [(layer, vary, shrink) for layer in data.naming for vary in ways for shrink in SHRINK]


def _trials(data: Read, one_half: bool, rng: np.random.Generator) -> tuple[Table, Flags]:
    """(pairs, evidence) and which pairs match: an update of one half of a user's data, with one or with many.

    With another update of the same half where both are anonymous, otherwise with everything of the other half. As in
    `reid-strong`, whitening comes from other users than those who are compared, and what is asked about is defended if
    the adversary knows the defence.
    """
    found, same = [], []
    for fold in range(2):
        fits = (data.part >= 0) & (data.who % 2 == fold)
        own = np.flatnonzero(fits & (data.defended == data.aware))
        half = data.part.max() + 1
        group = data.who * half + data.part  # which half of whose data
        wanted = group[own] if one_half else data.who[own] * half + (data.part[own] ^ 1)
        against = own if one_half else np.flatnonzero(fits & ~data.defended)
        names = group[own] if one_half else np.unique(group[against])
        first, second, match = _pairs(wanted, names, half, one_half, rng)
        columns = []
        for layer, vary, shrink in _kinds(data):
            rows, others = data.naming[layer].train, (data.who % 2 != fold) & (data.defended == vary)
            look = variation(rows[others], data.who[others]).whitening(shrink)
            level = look(rows[own])
            partners = level if one_half else templates(look(rows[against]), group[against])[0]
            columns.append(np.einsum("qd,qd->q", level[first], partners[second]))
        found.append(np.stack(columns, axis=1).astype(np.float64))
        same.append(match)
    return np.concatenate(found), np.concatenate(same)


def _pairs(
    wanted: IntArray, names: IntArray, half: int, apart: bool, rng: np.random.Generator
) -> tuple[IntArray, IntArray, Flags]:
    """Pair every update with a partner of the wanted half, and with one of the same half of another user's data."""
    first, second, match = [], [], []
    for row, name in enumerate(wanted.tolist()):
        same = np.flatnonzero(names == name)
        other = np.flatnonzero((names % half == name % half) & (names != name))
        if apart:
            same = same[same != row]
        for partners, right in ((same, True), (other, False)):
            if len(same) and len(partners):
                first.append(row)
                second.append(int(rng.choice(partners)))
                match.append(right)
    return np.array(first, np.int64), np.array(second, np.int64), np.array(match, np.bool_)


def fit_weights(evidence: Table, same: Flags) -> Table:
    """Weights of the evidence by maximum likelihood (logistic regression), none of them negative."""
    kinds = evidence.shape[1]
    if not 0 < same.sum() < len(same):
        return np.ones(kinds)
    scale = np.maximum(evidence.std(axis=0), 1e-9)
    scaled, sign = evidence / scale, np.where(same, 1.0, -1.0)

    def surprise(at: Table) -> tuple[float, Table]:
        margin = sign * (scaled @ at[:-1] + at[-1])
        slope = -sign * scipy.special.expit(-margin) / len(sign)
        gradient = np.append(slope @ scaled + 2 * _RIDGE * at[:-1], slope.sum())
        return float(-scipy.special.log_expit(margin).mean() + _RIDGE * at[:-1] @ at[:-1]), gradient

    bounds = [(0.0, None)] * kinds + [(None, None)]
    found = scipy.optimize.minimize(
        surprise, np.append(np.ones(kinds), 0.0), jac=True, method="L-BFGS-B", bounds=bounds
    )
    return np.asarray(np.maximum(found.x[:-1], 1e-3) / scale)
