"""Membership by single updates: what a client's update does to a record, compared with the round's other clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.membership.signals import asked, confidence, flat, gradients
from fedleak.attacks.shadow import model_of
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.errors import AttackError
from fedleak.federation.model import Model
from fedleak.games.game import Questions
from fedleak.games.membership import MembershipQuestions
from fedleak.population.population import Examples
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["GradientCosine", "LossDrop", "PerUpdate", "against_others", "comparable", "every_client"]

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PerUpdate:
    """Compare every record with the updates of some rounds."""

    game: ClassVar[str] = "membership"
    needs: ClassVar[Observation] = Observation.SNAPSHOTS | Observation.UPDATES
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    rounds: Annotated[int, Meta(ge=1, description="rounds that are used, at most: evenly over the run")] = 10
    compared: Annotated[int, Meta(ge=1, description="other clients of a round that an update is compared with")] = 6

    def signal(self, view: View, model: Model, number: int, rows: IntArray, records: Examples) -> Scores:
        """How much each update speaks for each record, (records, updates of the round)."""
        raise NotImplementedError

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Average over the rounds in which the client took part."""
        given = asked(questions)
        return given.mean(against_others(self, view, given, context))


def comparable(view: View) -> bool:
    """Whether single updates are seen, and some round has two that can be compared with each other."""
    seen = not view.adversary.lacks(PerUpdate.needs) and view.holds_updates
    return seen and bool((np.unique(view.updates.round, return_counts=True)[1] > 1).any())


def against_others(attack: PerUpdate, view: View, given: MembershipQuestions, context: AttackContext) -> Scores:
    """The mean standardised signal of each record.

    Within a round, the update of the client in question is compared with those of other clients: what all of them do to
    a record says nothing about whose it is. Where no client is in question, the most suspicious one is.
    """
    if not given.updates.size:
        mean, _ = every_client(attack, view, given.records, context)
        # The same client for all records of a user.
        of_user = np.stack([given.mean(column)[:, 0] for column in mean.T], axis=1)
        return np.asarray(of_user.max(axis=1)[given.question])
    model, updates = model_of(view), view.updates
    place = np.unique(updates.handle, return_inverse=True)[1]
    wanted = place[given.updates][given.question]
    rounds = _rounds(attack.rounds, updates.round, place, np.unique(wanted))
    total, count = np.zeros((2, len(given.records)))
    for done, number in enumerate(rounds.tolist(), 1):
        rows = np.flatnonzero(updates.round == number)
        for row in rows.tolist():
            mine = np.flatnonzero(wanted == place[row])
            if len(mine):
                others = context.rng.permutation(rows[rows != row])[: attack.compared]
                found = attack.signal(view, model, number, np.append(row, others), given.records.take(mine))
                total[mine] += _standardised(found)[:, 0]
                count[mine] += 1
        context.progress(done / (len(rounds) + 1))
    return np.asarray(total / np.maximum(count, 1))


def every_client(
    attack: PerUpdate, view: View, records: Examples, context: AttackContext
) -> tuple[Scores, npt.NDArray[np.uint64]]:
    """The mean standardised signal of each record and client, (records, clients), and the clients' handles."""
    model, updates = model_of(view), view.updates
    clients, place = np.unique(updates.handle, return_inverse=True)
    rounds = _rounds(attack.rounds, updates.round, place, np.arange(len(clients)))
    total, count = np.zeros((2, len(records), len(clients)))
    for done, number in enumerate(rounds.tolist(), 1):
        rows = np.flatnonzero(updates.round == number)
        total[:, place[rows]] += _standardised(attack.signal(view, model, number, rows, records))
        count[:, place[rows]] += 1
        context.progress(done / (len(rounds) + 1))
    return total / np.maximum(count, 1), clients


def _rounds(most: int, round_: IntArray, place: IntArray, wanted: IntArray) -> IntArray:
    """Evenly spaced rounds with at least two updates; and, for clients that are in none of these, one of their own."""
    numbers, size = np.unique(round_, return_counts=True)
    able = numbers[size > 1]
    if not len(able):
        raise AttackError("no round has two updates, so no update can be compared with those of other clients")
    kept = set(able[np.unique(np.linspace(0, len(able) - 1, min(most, len(able))).round().astype(np.int64))].tolist())
    for client in wanted.tolist():
        mine = set(round_[place == client].tolist()) & set(able.tolist())
        if mine and not mine & kept:
            kept.add(min(mine))
    return np.asarray(sorted(kept), dtype=np.int64)


def _standardised(found: Scores) -> Scores:
    """Of each record and client, in standard deviations of the round's other clients."""
    n = found.shape[1]
    total, square = found.sum(axis=1, keepdims=True), (found**2).sum(axis=1, keepdims=True)
    mean = (total - found) / (n - 1)
    if n < 3:
        return np.asarray(found - mean)
    variance = np.maximum((square - found**2) / (n - 1) - mean**2, 0)
    # A record on which the others happen to agree is not to outweigh all rounds.
    typical = np.median(variance[variance > 0]) if (variance > 0).any() else 1.0
    return np.asarray((found - mean) / np.sqrt(variance + 0.1 * typical))


def _sent(view: View, model: Model, rows: IntArray) -> dict[str, FloatArray]:
    return {layer.name: np.asarray(view.updates.layer(layer.name)[rows], dtype=np.float32) for layer in model.layout}


@dataclass(frozen=True, kw_only=True)
class GradientCosine(PerUpdate):
    """Compare the direction of an update with that in which the record alone would move the model.

    A record that was trained on pulls the update its way (Melis et al., 2019; Nasr et al., 2019; Li et al., 2023).
    """

    name: ClassVar[str] = "membership-cosine"
    summary: ClassVar[str] = (
        "Compares the gradient of a record with the updates of its client, standardised by the round's other clients."
    )

    def signal(self, view: View, model: Model, number: int, rows: IntArray, records: Examples) -> Scores:
        """The cosine of the negative gradient and each update."""
        sent = flat(model, _sent(view, model, rows))
        sent = sent / np.maximum(np.linalg.norm(sent, axis=1, keepdims=True), 1e-12)
        found = np.empty((len(records), len(rows)))
        for part, grads in gradients(model, view.task, view.snapshot(number - 1), records):
            length = np.maximum(np.linalg.norm(grads, axis=1, keepdims=True), 1e-12)
            found[part] = -(grads / length) @ sent.T
        return found


@dataclass(frozen=True, kw_only=True)
class LossDrop(PerUpdate):
    """Compare how sure the client's own model is of a record with how sure the other clients' models are.

    The shared model plus an update is the model that the client ended its round with, before it was averaged away: it
    has just been trained on the client's records.
    """

    name: ClassVar[str] = "membership-drop"
    summary: ClassVar[str] = (
        "Measures by how much an update lowers the loss on a record, standardised by the round's other clients."
    )

    def signal(self, view: View, model: Model, number: int, rows: IntArray, records: Examples) -> Scores:
        """The confidence of each client's own model."""
        start = view.snapshot(number - 1)
        local = {name: start[name][None] + sent for name, sent in _sent(view, model, rows).items()}
        return np.asarray(confidence(model, view.task, local, records).T)
