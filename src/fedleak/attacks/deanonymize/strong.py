"""The strongest attack that a server can make without breaking a rule: everything that it has, used together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.deanonymize.linking import agglomerate, groups, threshold
from fedleak.attacks.deanonymize.reading import Read, read
from fedleak.attacks.deanonymize.weighing import Trial, level_of_strangers, one_to_one, weigh
from fedleak.attacks.deanonymize.whiten import Whitening, templates, whitening
from fedleak.attacks.deanonymize.words import likelihood
from fedleak.attacks.features import spread
from fedleak.core import FloatArray, IntArray, Power, Sight, Task
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Strong"]


@dataclass(frozen=True, kw_only=True)
class Strong:
    """Retrain what is known, look away from what varies within a person, link, then name.

    The server trains every person's prior data on models that it sent out; whitens all layers by how updates vary
    within a person; joins the anonymous updates that come from one device; and names each device by all of its updates
    at once, everybody having one. How much each kind of evidence counts is learnt on the adversary's own data.
    """

    name: ClassVar[str] = "reid-strong"
    summary: ClassVar[str] = (
        "everything that a server can do by itself: retrain what it knows, link messages, name them"
    )
    game: ClassVar[str] = "identify"
    needs: ClassVar[Sight] = Sight.UPDATES | Sight.SNAPSHOTS
    powers: ClassVar[Power] = Power.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)

    snapshots: Annotated[int, Meta(ge=0, description="on how many models the prior data is trained; 0: none")] = 25
    divisions: Annotated[int, Meta(ge=1, description="in how many ways a person's prior data is cut in halves")] = 4
    dims: Annotated[
        int, Meta(ge=64, description="numbers kept of an update, over all layers; wider layers are sketched")
    ] = 4096
    shrink: Annotated[
        float, Meta(gt=0, description="how far the variation within people is drawn towards equal in all directions")
    ] = 0.2
    link: Annotated[bool, Meta(description="join the updates of a device before naming it")] = True

    def run(self, view: View, prior: Prior, questions: Questions, rng: np.random.Generator) -> FloatArray:
        """Score every option by its log-probability."""
        data = read(view, prior, questions, self.snapshots, self.divisions, self.dims, int(rng.integers(2**31)))
        seen = len(questions.options) if questions.options[-1] != "unseen" else len(questions.options) - 1
        trials = self._trials(data)
        weights = weigh(trials)
        look = whitening(data.train, data.who, self.shrink)
        member = self._devices(view, questions, data, look)
        scores, people = self._evidence(data, look, member)
        logits = np.tensordot(weights, scores, 1)
        inside = people < seen
        logits, people = logits[:, inside], people[inside]
        known = len(people)
        if seen < len(questions.options):
            level = level_of_strangers(trials, weights, seen)
            logits = np.concatenate([logits, np.full((len(logits), 1), level)], axis=1)
            people = np.append(people, seen)
        logs = one_to_one(logits, np.bincount(member), known)
        return spread(logs[member].astype(np.float32), people, len(questions.options))

    def _devices(self, view: View, questions: Questions, data: Read, look: Whitening) -> IntArray:
        """The device of each question, as far as the adversary can tell."""
        handles = view.updates.handle[questions.updates]
        if len(np.unique(handles)) < len(handles):
            return np.unique(handles, return_inverse=True)[1].astype(np.int64)
        if not self.link:
            return np.arange(len(handles))
        own, asked = look(data.known), look(data.asked)
        least = threshold(agglomerate(own @ own.T, data.known_round), data.known_who)
        rounds = view.updates.round[questions.updates]
        return groups(agglomerate(asked @ asked.T, rounds), len(asked), least)

    def _evidence(self, data: Read, look: Whitening, member: IntArray) -> tuple[FloatArray, IntArray]:
        """(evidence, devices, people): how well each device fits each person, and which people these are."""
        device, _ = templates(look(data.asked), member)
        person, people = templates(
            np.concatenate([look(data.train), look(data.known)]), np.concatenate([data.who, data.known_who])
        )
        scores = [device @ person.T]
        if data.used is not None:
            used = np.zeros((len(device), data.used.shape[1]), dtype=np.bool_)
            np.logical_or.at(used, member, data.used)
            scores.append(likelihood(used, data.words[people]))
        return np.stack(scores).astype(np.float32), people

    def _trials(self, data: Read) -> list[Trial]:
        """Name one half of each person's data by the other half.

        The whitening comes from other people than those who are asked about: it must not know how their halves differ.
        """
        trials = []
        for fold in range(2):
            asked = data.who % 2 == fold
            look = whitening(data.train[~asked], data.who[~asked], self.shrink)
            for division in range(self.divisions):
                for one in (2 * division, 2 * division + 1):
                    other = one ^ 1
                    rows = {part: data.part == part for part in (one, other)}
                    if not (rows[one] & asked).any() or not rows[other].any():
                        continue
                    person, people = templates(look(data.train[rows[other]]), data.who[rows[other]])
                    query = rows[one] & asked & np.isin(data.who, people)
                    device, right = templates(look(data.train[query]), data.who[query])
                    scores = [device @ person.T]
                    if data.used is not None:
                        scores.append(likelihood(data.half_words[one][right] > 0, data.half_words[other][people]))
                    trials.append(Trial(np.stack(scores).astype(np.float32), np.searchsorted(people, right)))
        return trials
