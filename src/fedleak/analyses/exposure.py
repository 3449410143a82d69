"""How strongly has the model memorised each secret, and would a search find it?

An attack's predictions show where it ranked a secret, not why. Two things come before any ranking: the rank of the
secret among all records of its format (Carlini et al., 2019), and whether it is among the attack's candidates at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.analyses.analysis import SingleAttackAnalysis, closing, play, vary
from fedleak.analyses.curves import doubling, line
from fedleak.attacks.attack import Attack
from fedleak.attacks.records.candidate_search import Searching, spread
from fedleak.attacks.records.exposure_history import followed, language
from fedleak.attacks.records.format_search import Space
from fedleak.attacks.records.rank import ranks
from fedleak.core import rng_for
from fedleak.errors import PlanError, did_you_mean
from fedleak.games.extract import Extract, RecordQuestions
from fedleak.metrics.interval import by_user
from fedleak.metrics.records import near
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, PerRecord, Series
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.trace.truth import Truth
from fedleak.views.adversaries import Adversary

__all__ = ["Exposure"]

_TITLES = ["user", "bits", "exposed", "error", "at best", "round", "nats", "best nats", "candidate", "own", "anybody's"]
_MOST_SEARCHED = 32  # snapshots in the figure of candidates, where the attack itself searches no more
Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What was found out about the secrets of one run, and about the decoys, which nobody holds; columns are users."""

    users: tuple[str, ...]
    rounds: list[int]  # where ranks were taken
    bits: Values  # (rounds, users) exposure by rank
    errors: Values  # its standard error; 0 where the rank was counted
    nats: Values  # (every round from 0, users) exposure by perplexity
    searched: dict[int, list[bool]]  # round -> whether each is among the candidates of that snapshot


@dataclass(frozen=True, kw_only=True)
class Exposure(SingleAttackAnalysis):
    """Exposure of every secret in bits over the rounds, and the recall of an attack's candidates."""

    name: ClassVar[str] = "exposure"
    summary: ClassVar[str] = "How strongly has the model memorised each secret, and would a search find it?"

    points: Annotated[int, Meta(ge=1, description="rank the secrets under this many snapshots, evenly spaced")] = 12
    samples: Annotated[
        int, Meta(ge=8, description="records drawn to estimate a rank that is too far down to be counted")
    ] = 2000

    def check(self, plan: Plan) -> None:
        """Reject a plan without a search."""
        if searcher(plan, self.attack)[1].listed:
            raise PlanError("analysis 'exposure': the game lists the candidates, so there is no search to analyse")

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Rank secrets and decoys under some snapshots, and repeat the attack's search; nothing is trained again."""
        attack, game = searcher(plan, self.attack)
        if plan.inject is not None and plan.inject.victims is not None:
            game = replace(game, victims=False)  # every secret is ranked, whoever has a watermark
        once = vary(plan, attacks=[cast(Attack, attack)], games=[game])
        [plays] = play(once, out, progress, jobs)
        every = runs(once, out)
        progress.stage("Ranking secrets among all records", len(every) * (self.points + 1))
        secrets, decoys = [], []
        for run in every:
            held, never = self._look(run, attack, game, once.adversaries[0], progress)
            secrets.append(held)
            decoys += [never] if never.users else []
        placed = [row for claims in plays for row in near(claims)]
        form = build_questions(every[0], game).questions
        assert isinstance(form, RecordQuestions)
        bits = form.form.bits
        hidden = Pseudonyms.open(out).all_of(user for held in secrets for user in held.users)
        found = [row for held in secrets for row in self._rows(held, attack, bits)]
        rows = [[hidden[str(row[0])], *row[1:], *_places(where)] for row, where in zip(found, placed, strict=True)]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=self._text(plan, attack, secrets, decoys, bits),
            columns=_TITLES,
            rows=sorted(rows, key=lambda row: str(row[0])),
            figures=self._figures(plan, attack, secrets, decoys, bits),
        )

    def _look(
        self, run: Run, attack: Searching, game: Extract, adversary: Adversary, progress: Progress
    ) -> list[_Looked]:
        """The secrets and the decoys of one run."""
        given, truth = build_questions(run, game), Truth.load(run.folder / "truth")
        questions = given.questions
        assert isinstance(questions, RecordQuestions)
        known = questions.records
        users = given.answers.users
        owners = [truth.client_user[client] for client in questions.clients]
        groups = [[held[owner][0] for owner in owners if owner in held] for held in (truth.secrets, truth.decoys)]
        records = [record for group in groups for record in group]
        view, _ = given.look(run.folder / "trace", adversary)
        space = Space(questions.form, language(view, known.characters, known.context))
        rounds = [0, *spread(view.rounds, self.points)]
        ranked = []
        for number in rounds:
            rng = rng_for(run.seed, self.name, number)
            ranked.append(ranks(space, view.snapshot(number), records, rng, samples=self.samples, limit=5000))
            progress.tick(1)
        bits = np.array([found.bits for found in ranked])
        errors = np.array([found.error / found.rank / math.log(2) for found in ranked])
        nats = followed(view, known.characters, known.context, records)
        numbers = sorted(
            {number for count in self._counts(attack, view.rounds) for number in spread(view.rounds, count)}
        )
        found = {number: attack.under(space, view.snapshot(number)) for number in numbers}
        looked, start = [], 0
        for group in groups:
            part = slice(start, start := start + len(group))
            looked.append(
                _Looked(
                    users=users[: len(group)],
                    rounds=rounds,
                    bits=bits[:, part],
                    errors=errors[:, part],
                    nats=nats[:, part],
                    searched={number: [record in held for record in group] for number, held in found.items()},
                )
            )
        return looked

    def _counts(self, attack: Searching, rounds: int) -> list[int]:
        """How many snapshots are searched, each in turn; the attack's own number is among them."""
        most = min(rounds, max(_MOST_SEARCHED, attack.snapshots))
        return sorted({*doubling(most), most, min(attack.snapshots, rounds)})

    def _rows(self, held: _Looked, attack: Searching, bits: float) -> list[list[str | float | None]]:
        candidates = _among(held, attack.snapshots)
        best = held.bits.argmax(axis=0)
        return [
            [
                user,
                bits,
                float(held.bits[-1, column]),
                float(held.errors[-1, column]),
                float(held.bits[best[column], column]),
                held.rounds[best[column]],
                float(held.nats[-1, column]),
                float(held.nats[:, column].max()),
                "yes" if candidates[column] else "no",
            ]
            for column, user in enumerate(held.users)
        ]

    def _text(
        self, plan: Plan, attack: Searching, secrets: Sequence[_Looked], decoys: Sequence[_Looked], bits: float
    ) -> str:
        def given_away(group: Sequence[_Looked]) -> str:
            value, low, high = _mean(group, [one.bits[-1] for one in group], bits, plan.audit.level)
            return f"{value:.1f} [{low:.1f}, {high:.1f}]"

        def among(group: Sequence[_Looked]) -> str:
            hits = np.concatenate([_among(one, attack.snapshots) for one in group])
            return f"{hits.sum():.0f} of {len(hits)}"

        beside = f", and {given_away(decoys)} of a decoy, which was never planted" if decoys else ""
        false = f", and {among(decoys)} decoys" if decoys else ""
        return (
            f"Guessing a secret from its format alone takes {bits:.1f} bits. Exposure is how many of them the model "
            "reveals: all, if the secret is more likely than every other record of the format; none, if it is no more "
            "likely than the rest. A rank is counted where it is high enough, and estimated by sampling elsewhere. At "
            f"the end the model reveals {given_away(secrets)} bits of a secret{beside}. {attack.name} searches "
            f"{attack.snapshots} snapshots for {attack.candidates} candidates each: {among(secrets)} secrets are among "
            f"them{false}; no ranking can name the others. The table gives for each secret its bits, those exposed "
            "at the end (with the standard error of an estimated rank) and at best (and in which round), the exposure "
            "by perplexity in nats per character at the end and at best, whether it is a candidate, and its rank in "
            "the attack's list for its user's client, and for any client. "
            f"{closing(plan, attack.name, permuted=False)}"
        )

    def _figures(
        self, plan: Plan, attack: Searching, secrets: Sequence[_Looked], decoys: Sequence[_Looked], bits: float
    ) -> list[Figure]:
        rounds = secrets[0].rounds
        counts = self._counts(attack, rounds[-1])

        def lines(x: Sequence[int], shown: Callable[[_Looked, int], Values], scale: float = 1.0) -> list[Series]:
            kinds = [("secrets", secrets), ("decoys, never planted", decoys)]
            return [_line(name, x, shown, group, scale, plan.audit.level) for name, group in kinds if group]

        return [
            Figure(
                kind="lines",
                title="Bits of a secret that the model reveals, over the rounds",
                x_label="round",
                y_label="exposure by rank (bits)",
                series=[
                    *lines(rounds, lambda one, number: one.bits[rounds.index(number)], bits),
                    Series(name="all there are", x=[0.0, float(rounds[-1])], y=[bits, bits], reference=True),
                ],
            ),
            Figure(
                kind="lines",
                title="Likelihood of a secret's characters under the model, over the rounds",
                x_label="round",
                y_label="exposure by perplexity (nats per character)",
                series=lines(rounds, lambda one, number: one.nats[number]),
            ),
            Figure(
                kind="lines",
                title="Secrets among the candidates, over the number of snapshots searched",
                x_label="snapshots searched",
                y_label="share among the candidates",
                log_x=True,
                series=lines(counts, _among),
            ),
        ]


def searcher(plan: Plan, name: str | None) -> tuple[Searching, Extract]:
    """The attack whose search is repeated, the first of the plan that searches or the one asked for, and its game."""
    able: dict[str, tuple[Searching, Extract]] = {}
    for attack, game, _ in plan.plays:
        if isinstance(attack, Searching) and isinstance(game, Extract):
            able.setdefault(attack.name, (attack, game))
    if not able:
        raise PlanError("analysis 'exposure' needs an attack that searches for records, for instance eavesdrop")
    if name is not None and name not in able:
        raise PlanError(f"analysis 'exposure': the plan has no attack '{name}' that searches{did_you_mean(name, able)}")
    return able[name or next(iter(able))]


def _among(one: _Looked, snapshots: int) -> Values:
    """Which are among the candidates of so many snapshots: 1 or 0."""
    held = [one.searched[number] for number in spread(len(one.nats) - 1, snapshots)]
    return np.asarray(np.any(held, axis=0), dtype=np.float64)


def _mean(group: Sequence[_Looked], values: Sequence[Values], scale: float, level: float) -> tuple[float, float, float]:
    """The mean over users of all seeds with its interval; `scale` is the largest value there can be."""
    _, who = np.unique([user for one in group for user in one.users], return_inverse=True)
    weights = np.bincount(who).astype(np.float64)
    each = np.bincount(who, np.concatenate(values) / scale) / weights
    found = by_user(each, weights, level, rng_for(0, "interval", "exposure"))
    return scale * float(np.average(each, weights=weights)), scale * found.low, scale * found.high


def _line(
    name: str,
    x: Sequence[int],
    shown: Callable[[_Looked, int], Values],
    group: Sequence[_Looked],
    scale: float,
    level: float,
) -> Series:
    values = [(float(at), [shown(one, at) for one in group]) for at in x]
    return line(name, [(at, *_mean(group, each, scale, level)) for at, each in values])


def _places(where: PerRecord) -> list[str]:
    return ["no" if place is None else str(place) for place in (where.place, where.elsewhere)]
