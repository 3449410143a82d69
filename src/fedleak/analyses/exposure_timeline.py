"""Secrets, and an attack's candidates, followed through the rounds of a run beside a signal of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedleak.attacks.records.candidate_search import presence
from fedleak.attacks.records.eavesdrop import Correlating, Eavesdrop, rank_sum, spearman
from fedleak.attacks.records.exposure_history import followed
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.watermark import Watermark, watermarks
from fedleak.core import IntArray
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import GameInstance
from fedleak.pipeline.runs import Run
from fedleak.views.adversaries import Adversary
from fedleak.views.view import View

__all__ = ["SIGNALS", "Named", "Course", "course"]

SIGNALS: Mapping[str, type[Correlating]] = {"presence": Eavesdrop, "watermark": Watermark}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The record that an attack names first for each holder's client, among all its candidates."""

    changes: Scores  # (rounds, candidates), of exposure
    exposure: Scores  # (candidates,), at the end
    first: IntArray  # by client
    right: Scores  # by client: 1 where it is the user's secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The secrets of one run, and a signal of its clients, round by round."""

    seed: int
    users: tuple[str, ...]  # who hold the secrets; their clients come first among the signals
    changes: Scores  # (rounds, secrets), of exposure
    signals: Scores  # (rounds, clients)
    first: Named | None = None  # what the plan's attack named, if it has one

    @property
    def rounds(self) -> int:
        """How many rounds the adversary can tell apart."""
        return len(self.changes)

    def correlation(self, rounds: int) -> Scores:
        """Of every client (row) with every secret (column) in the first rounds."""
        return spearman(self.signals[:rounds], self.changes[:rounds])

    def right(self, rounds: int) -> Scores:
        """1 where a secret's own client correlates highest; where several do, each is as good a guess."""
        table = self.correlation(rounds)
        best = np.isclose(table, table.max(axis=0))
        return np.asarray(best.diagonal() / best.sum(axis=0))

    def own(self, rounds: int) -> Scores:
        """The correlation of each secret with its own client."""
        return np.asarray(self.correlation(rounds).diagonal())

    def others(self, rounds: int, *, highest: bool = False) -> Scores:
        """The mean or the highest correlation of each secret with the other clients."""
        table = self.correlation(rounds)
        np.fill_diagonal(table, np.nan)
        return np.asarray(np.nanmax(table, axis=0) if highest else np.nanmean(table, axis=0))


def course(
    run: Run, given: GameInstance, signal: str, adversary: Adversary, attack: Correlating | None, workers: int
) -> Course:
    """Follow the true secrets of a run, and an attack's candidates, through an adversary's eyes."""
    view, questions = given.look(run.folder / "trace", adversary)
    assert isinstance(questions, RecordQuestions)
    records = questions.records
    secrets = ["".join(records.characters[token] for token in row if token) for row in given.answers.right]
    exposure = followed(view, records.characters, records.context, secrets, workers)
    if signal == "watermark" and given.answers.scored is not None:
        return _of_victims(run, given, view, questions, np.diff(exposure, axis=0))
    if signal == "presence":
        everybody = {client for number in range(1, view.rounds + 1) for client in view.selection(number)}
        others = sorted(everybody - set(questions.clients))
        signals = presence(view, [*questions.clients, *others]).astype(np.float64)
    else:
        signals = np.asarray(Watermark().signals(view, questions), dtype=np.float64)
    first = None
    if attack is not None:
        found = attack.followed(view, questions, workers)
        changes, last = np.diff(found.exposure, axis=0), found.exposure[-1]
        correlation = spearman(signals, changes)[: len(secrets)]
        chosen = np.array([rank_sum(row, last)[0] for row in correlation])
        right = [found.records[place] == secret for place, secret in zip(chosen, secrets, strict=True)]
        first = Named(changes=changes, exposure=last, first=chosen, right=np.array(right, dtype=np.float64))
    return Course(
        seed=run.seed, users=given.answers.users, changes=np.diff(exposure, axis=0), signals=signals, first=first
    )


def _of_victims(run: Run, given: GameInstance, view: View, questions: RecordQuestions, changes: Scores) -> Course:
    """Where only some clients have a watermark: which client's secret does each watermark go with?

    The other way round than with a watermark in every client, since a secret cannot be compared with watermarks that
    are not there (Yuan et al., 2021, Fig. 3). So the clients' secrets are the signals, those of the victims first.
    """
    scored = given.answers.scored
    assert scored is not None
    order = [*scored.tolist(), *(place for place in range(len(questions)) if place not in scored)]
    return Course(
        seed=run.seed,
        users=tuple(given.answers.users[place] for place in scored),
        changes=np.diff(watermarks(view, questions), axis=0)[:, scored],
        signals=changes[:, order],
    )
