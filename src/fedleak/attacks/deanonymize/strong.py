"""The strongest attack of an honest-but-curious server: it combines everything that the server has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.attacks.context import AttackContext
from fedleak.attacks.deanonymize.evidence_fusion import Trial, level_of_strangers, one_to_one, weigh_if_worth
from fedleak.attacks.deanonymize.layer_features import Read, read_layers
from fedleak.attacks.deanonymize.linking import (
    Tried,
    agglomerate,
    alike,
    alike_in_size,
    groups,
    outcomes,
    threshold,
)
from fedleak.attacks.deanonymize.wccn import templates, variation
from fedleak.attacks.deanonymize.words import likelihood
from fedleak.attacks.features import fill_missing_candidates
from fedleak.attacks.work import by_snapshots
from fedleak.core import Capability, FloatArray, IntArray, Observation, Task
from fedleak.games.game import Questions
from fedleak.trace.prior import Prior
from fedleak.views.view import View

__all__ = ["Strong", "SHRINK", "sides"]

# How far the variation within users is drawn towards equal. Little is best where there are many examples to learn it
# from (handwriting), much where there are few (text); each is a kind of evidence, and trials tell which one counts.
SHRINK = (0.03, 0.3, 3.0, 30.0)
LINKING = 0.03


@dataclass(frozen=True, kw_only=True)
class Strong:
    """Retrain on the prior data, whiten within-user variation (WCCN), link updates, then name their senders.

    The server trains every user's prior data on models that it sent out; whitens all layers by how updates vary within
    a user; links the anonymous updates that come from the same client; and names each client by all of its updates at
    once, one client per user. The weight of each source of evidence is learnt on the adversary's own data.
    """

    name: ClassVar[str] = "reid-strong"
    summary: ClassVar[str] = (
        "Combines everything that a server can do: retrains on its prior data, links updates across rounds, and fuses "
        "the evidence."
    )
    game: ClassVar[str] = "identify"
    needs: ClassVar[Observation] = Observation.UPDATES | Observation.SNAPSHOTS
    capabilities: ClassVar[Capability] = Capability.NONE
    tasks: ClassVar[tuple[Task, ...]] = tuple(Task)
    work = by_snapshots

    snapshots: Annotated[
        int, Meta(ge=0, description="number of snapshots on which the prior data is retrained; 0: none")
    ] = 25
    divisions: Annotated[int, Meta(ge=1, description="number of ways in which a user's prior data is halved")] = 4
    dims: Annotated[int, Meta(ge=64, description="principal components kept of an update, over all layers")] = 2048
    link: Annotated[bool, Meta(description="link the updates of a client before naming it")] = True

    def run(self, view: View, prior: Prior, questions: Questions, context: AttackContext) -> FloatArray:
        """Score every option by its log-probability."""
        data = read_layers(
            view, prior, questions, context, snapshots=self.snapshots, divisions=self.divisions, dims=self.dims
        )
        seen = len(questions.options) if questions.options[-1] != "unseen" else len(questions.options) - 1
        trials = self._trials(data)
        # Comparing with raw updates is as good as not knowing the defence; with defended ones it may be worse.
        doubtful = [side for _ in data.naming for _, side in sides(data) for _ in SHRINK]
        if data.words is not None:
            doubtful.append(False)
        weights = weigh_if_worth(trials, np.array(doubtful))
        of_client = self._clients(view, questions, data, context.rng)
        scores, users = _evidence(data, of_client)
        logits = np.tensordot(weights, scores, 1)
        inside = users < seen
        logits, users = logits[:, inside], users[inside]
        known = len(users)
        if seen < len(questions.options):
            level = level_of_strangers(trials, weights, seen)
            logits = np.concatenate([logits, np.full((len(logits), 1), level)], axis=1)
            users = np.append(users, seen)
        logs = one_to_one(logits, np.bincount(of_client), known)
        return fill_missing_candidates(logs[of_client].astype(np.float32), users, len(questions.options))

    def _clients(self, view: View, questions: Questions, data: Read, rng: np.random.Generator) -> IntArray:
        """The client of each question, as far as the adversary can tell."""
        handles = view.updates.handle[questions.updates]
        if len(np.unique(handles)) < len(handles):
            return np.unique(handles, return_inverse=True)[1].astype(np.int64)
        if not self.link:
            return np.arange(len(handles))
        sizes = None if view.updates.size is None else view.updates.size[questions.updates]
        # Priors are of one size, so its own clients say nothing about sizes: they pretend to have those of the others.
        pretended = None if sizes is None else rng.choice(sizes, int(data.known_who.max()) + 1)
        rows, raw, tried = data.linking, ~data.defended, list[Tried]()
        for fold in range(2):
            # Looked at as anonymous clients are: by a whitening that has not seen their data.
            own, others = np.flatnonzero(data.known_who % 2 == fold), raw & (data.who % 2 != fold)
            look = variation(rows.train[others], data.who[others]).whitening(LINKING)
            similar = alike(look(rows.known[own]))
            if data.words is not None:
                similar += alike(data.words.known[own])
            if pretended is not None:
                same_size = alike_in_size(pretended[data.known_who[own]], len(np.unique(data.known_who[own])))
                similar += np.minimum(same_size, 1)  # by luck, not because every client has a size of its own
            tried += outcomes(agglomerate(similar, data.known_round[own]), data.known_who[own])
        similar = alike(variation(rows.train[raw], data.who[raw]).whitening(LINKING)(rows.asked))
        if data.words is not None:
            # A client has the same words in every round, so this alone may decide.
            similar += alike(data.words.asked)
        if sizes is not None:
            # In an open world nobody knows how many clients there are.
            known = questions.options[-1] != "unseen"
            similar += alike_in_size(sizes, len(questions.options) if known else len(sizes) + 1)
        return groups(agglomerate(similar, view.updates.round[questions.updates]), len(similar), threshold(tried))

    def _trials(self, data: Read) -> list[Trial]:
        """Name one half of each user's data by the other half; defended, if the adversary knows the defence.

        The whitening comes from other users than those who are asked about: it must not know how their halves differ.
        """
        trials = []
        for fold in range(2):
            asked = data.who % 2 == fold
            halves = [(one, data.part == one, data.part == one ^ 1) for one in range(2 * self.divisions)]
            halves = [
                (one, ours & asked & (data.defended == data.aware) & np.isin(data.who, data.who[theirs]), theirs)
                for one, ours, theirs in halves
            ]
            halves = [half for half in halves if half[1].any()]
            scores: list[list[FloatArray]] = [[] for _ in halves]
            for rows in data.naming.values():
                for vary, side in sides(data):
                    others = ~asked & (data.defended == vary)
                    within = variation(rows.train[others], data.who[others])
                    for shrink in SHRINK:
                        level = within.whitening(shrink)(rows.train)
                        for found, (_, ours, theirs) in zip(scores, halves, strict=True):
                            client, _ = templates(level[ours], data.who[ours])
                            theirs = theirs & (data.defended == side)
                            user, _ = templates(level[theirs], data.who[theirs])
                            found.append(client @ user.T)
            for found, (one, ours, theirs) in zip(scores, halves, strict=True):
                right, users = np.unique(data.who[ours]), np.unique(data.who[theirs])
                if data.words is not None:
                    used, before = data.words.shown[one][right] > 0, data.words.halves[one ^ 1][users]
                    found.append(likelihood(used, before))
                trials.append(Trial(np.stack(found).astype(np.float32), np.searchsorted(users, right)))
        return trials


def sides(data: Read) -> list[tuple[bool, bool]]:
    """By which updates within-user variation is whitened, and with which ones clients are compared: defended ones?"""
    return [(False, False), (True, False), (True, True)] if data.aware else [(False, False)]


def _evidence(data: Read, of_client: IntArray) -> tuple[FloatArray, IntArray]:
    """(evidence, clients, users): how well each client fits each user, and which users these are."""
    scores = []
    for rows in data.naming.values():
        for vary, side in sides(data):
            varying, mine = data.defended == vary, data.defended == side
            within = variation(rows.train[varying], data.who[varying])
            who = data.who[mine]
            for shrink in SHRINK:
                look = within.whitening(shrink)
                client, _ = templates(look(rows.asked), of_client)
                own = look(rows.train[mine])
                if not side:  # the adversary's clients in the federation send raw updates
                    user, users = templates(np.concatenate([own, look(rows.known)]), np.append(who, data.known_who))
                else:
                    user, users = templates(own, who)
                scores.append(client @ user.T)
    if data.words is not None:
        used = np.zeros((len(client), data.words.asked.shape[1]), dtype=np.bool_)
        np.logical_or.at(used, of_client, data.words.asked)
        scores.append(likelihood(used, data.words.users[users]))
    return np.stack(scores).astype(np.float32), users
