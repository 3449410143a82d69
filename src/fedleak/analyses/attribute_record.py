"""Whose record is this? Given a record, the device with whose presence, or with whose watermark, it is learnt.

Extracting a secret and attributing it are two things. Here the auditor hands over the true secrets, so nothing has to
be extracted, and what is left is attribution: how many rounds it takes, and whether it could be an accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec import Meta

from fedleak import pipeline
from fedleak.analyses.analysis import closing
from fedleak.attacks.records.eavesdrop import spearman
from fedleak.attacks.records.following import followed
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.searching import presence
from fedleak.attacks.records.significance import against_permuted, contrasts, holm
from fedleak.attacks.records.watermark import watermarks
from fedleak.core import Power, Sight, derive, number
from fedleak.errors import PlanError
from fedleak.games.extract import RecordQuestions
from fedleak.games.game import Asked
from fedleak.jobs import cores
from fedleak.pipeline import Progress
from fedleak.plan.plan import Plan
from fedleak.plan.read import merged, parse
from fedleak.plays import asked
from fedleak.runs import Run, runs
from fedleak.score.interval import Interval, by_user
from fedleak.score.result import Analysis, Figure, Series
from fedleak.views.view import View

__all__ = ["AttributeRecord", "Course"]

# Signal -> what it takes of an adversary, and the words for it.
_TAKES: Mapping[str, tuple[Sight, Power]] = {
    "presence": (Sight.SNAPSHOTS | Sight.SELECTION, Power.NONE),
    "watermark": (Sight.SNAPSHOTS, Power.INJECT),
}
_BLOCK = 10  # rounds among which watermarks are permuted: the course of training stays as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The secrets of one run, and a signal of its devices, round by round."""

    seed: int
    people: tuple[str, ...]  # who hold the secrets; their devices come first among the signals
    changes: Scores  # (rounds, secrets), of exposure
    signals: Scores  # (rounds, devices)

    def correlation(self, rounds: int) -> Scores:
        """Of every device (row) with every secret (column) in the first rounds."""
        return spearman(self.signals[:rounds], self.changes[:rounds])

    def right(self, rounds: int) -> Scores:
        """1 where a secret's own device correlates highest; where several do, each is as good a guess."""
        table = self.correlation(rounds)
        best = np.isclose(table, table.max(axis=0))
        return np.asarray(best.diagonal() / best.sum(axis=0))

    def own(self, rounds: int) -> Scores:
        """The correlation of each secret with its own device."""
        return np.asarray(self.correlation(rounds).diagonal())

    def others(self, rounds: int, *, highest: bool = False) -> Scores:
        """The mean or the highest correlation of each secret with the other devices."""
        table = self.correlation(rounds)
        np.fill_diagonal(table, np.nan)
        return np.asarray(np.nanmax(table, axis=0) if highest else np.nanmean(table, axis=0))


@dataclass(frozen=True, kw_only=True)
class AttributeRecord:
    """Correlation of each secret's exposure with every device, over the rounds (Yuan et al., 2021, Figures 2 and 3)."""

    name: ClassVar[str] = "attribute-record"
    summary: ClassVar[str] = "Given a record, whose is it, and after how many rounds can that be told?"

    points: Annotated[int, Meta(ge=2, le=200, description="points of the curves over the rounds")] = 20
    permutations: Annotated[int, Meta(ge=99, description="how often rounds are permuted for a p-value")] = 9999

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Curves over the rounds, and at the end who was attributed and whether it could be an accident."""
        players = able(plan)
        plain = parse(plan.text, plan.title, merged(plan.change, {"defence": [], "audit": {"controls": []}}))
        pipeline.train(plain, out, progress, jobs)
        every = runs(plain, out)
        progress.stage("Following secrets", len(every) * len(players))
        courses: dict[str, list[Course]] = {signal: [] for signal in players}
        for run in every:
            given = asked(run, next(game for game in plan.games if game.name == "extract"))
            for signal, adversary in players.items():
                courses[signal].append(course(run, given, signal, adversary, jobs or cores()))
                progress.tick(1)
        steps = np.unique(np.linspace(3, max(3, plan.federation.rounds), self.points).round().astype(int)).tolist()
        found = [self._about(plan, signal, some) for signal, some in courses.items()]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The auditor hands over every secret; from round to round it is followed how well the shared model "
                "knows it, and whose signal moves with that. " + " ".join(text for text, _ in found) + " A p-value "
                f"compares with {self.permutations} permutations of the rounds, for the best of all devices, corrected "
                f"for the number of secrets (Holm, 1979). {closing(plan, permuted=False)}"
            ),
            columns=["whose secret", "signal", "own device", "best other", "attributed", "p", "p corrected"],
            rows=[row for _, rows in found for row in rows],
            figures=[
                Figure(
                    kind="lines",
                    title="Correlation of a secret's exposure with its own device and with the others",
                    x_label="rounds seen",
                    y_label="mean rank correlation",
                    series=[
                        line
                        for signal, some in courses.items()
                        for line in (
                            _line(plan, f"{signal}, own device", some, steps, Course.own),
                            _line(plan, f"{signal}, other devices", some, steps, Course.others),
                        )
                    ],
                ),
                Figure(
                    kind="lines",
                    title="Share of the secrets that correlate best with their own device",
                    x_label="rounds seen",
                    y_label="attributed",
                    series=[
                        *(_line(plan, signal, some, steps, Course.right) for signal, some in courses.items()),
                        Series(
                            name="chance",
                            x=[float(steps[-1])],
                            y=[chance(next(iter(courses.values())))],
                            reference=True,
                        ),
                    ],
                ),
            ],
        )

    def _about(self, plan: Plan, signal: str, courses: Sequence[Course]) -> tuple[str, list[list[str | float | None]]]:
        """One signal at the end of the run: a sentence, and a row for each secret."""
        block = _BLOCK if signal == "watermark" else None
        p = [
            against_permuted(
                contrasts(one.signals),
                one.changes,
                derive(one.seed, "attribute-record", signal),
                permutations=self.permutations,
                block=block,
            )
            for one in courses
        ]
        corrected = holm(np.concatenate(p))
        last = plan.federation.rounds
        own = np.concatenate([one.own(last) for one in courses])
        best = np.concatenate([one.others(last, highest=True) for one in courses])
        right = np.concatenate([one.right(last) for one in courses])
        names = [f"{person} (seed {one.seed})" for one in courses for person in one.people]
        level = 1 - plan.audit.level
        ends = interval(plan, courses, right)
        shown = int(((corrected <= level) & (right == 1)).sum())
        text = (
            f"By {'who took part' if signal == 'presence' else 'the watermarks'}, {number(float(right.mean()))} "
            f"[{number(ends.low)}, {number(ends.high)}] of {len(right)} secrets go best with their own device, chance "
            f"{number(chance(courses))}; for {shown} of them this is shown to be no accident (p at most {level:.2g})."
        )
        rows: list[list[str | float | None]] = [
            [name, signal, *map(float, values)]
            for name, *values in zip(names, own, best, right, np.concatenate(p), corrected, strict=True)
        ]
        return text, rows


def able(plan: Plan) -> dict[str, Any]:
    """Which signals the plan's adversaries have, and who has them."""
    if not any(game.name == "extract" for game in plan.games):
        raise PlanError(
            "analysis 'attribute-record' is about secrets in people's texts, and no attack of the plan asks for any; "
            "add one that plays 'extract', for instance [[attack]] eavesdrop"
        )
    found: dict[str, Any] = {}
    for signal, (sights, power) in _TAKES.items():
        for adversary in plan.adversaries:
            granted = power == Power.NONE or (power in adversary.powers and plan.inject is not None)
            if granted and not adversary.lacks(sights):
                found.setdefault(signal, adversary)
    if not found:
        raise PlanError(
            "analysis 'attribute-record' needs an adversary who sees who took part (eavesdropper), or one who placed a "
            "record (insider, with a table [inject])"
        )
    return found


def course(run: Run, given: Asked, signal: str, adversary: Any, workers: int) -> Course:
    """Follow the true secrets of a run through an adversary's eyes."""
    questions = given.questions
    assert isinstance(questions, RecordQuestions)
    view = View(run.folder / "trace", adversary, given.shadow, injected=given.injected, workers=workers)
    records = questions.records
    secrets = ["".join(records.characters[token] for token in row if token) for row in given.answers.right]
    exposure = followed(view, records.characters, records.context, secrets)
    if signal == "presence":
        everybody = {device for number in range(1, view.rounds + 1) for device in view.selection(number)}
        others = sorted(everybody - set(questions.devices))
        signals = presence(view, [*questions.devices, *others]).astype(np.float64)
    else:
        signals = np.diff(watermarks(view, questions), axis=0)
    return Course(seed=run.seed, people=given.answers.people, changes=np.diff(exposure, axis=0), signals=signals)


def chance(courses: Sequence[Course]) -> float:
    """The share of secrets that a blind guess attributes."""
    return float(np.mean([1 / one.signals.shape[1] for one in courses]))


def interval(plan: Plan, courses: Sequence[Course], values: Scores) -> Interval:
    """Of the mean of one value for each secret, resampling people."""
    people = [person for one in courses for person in one.people]
    who = np.unique(people, return_inverse=True)[1]
    weights = np.bincount(who).astype(np.float64)
    means = np.bincount(who, weights=values) / weights
    return by_user(means, weights, plan.audit.level, derive(courses[0].seed, "attribute-record", "interval"))


def _line(plan: Plan, name: str, courses: Sequence[Course], steps: Sequence[int], value: Any) -> Series:
    """A mean over all secrets after each of some rounds."""
    each = [np.concatenate([value(one, rounds) for one in courses]) for rounds in steps]
    # Values that are all the same have no spread to resample; for shares, a handful of people still leaves doubt.
    ends = [
        interval(plan, courses, values)
        if value is Course.right or np.ptp(values)
        else Interval(float(values[0]), float(values[0]))
        for values in each
    ]
    return Series(
        name=name,
        x=[float(rounds) for rounds in steps],
        y=[float(values.mean()) for values in each],
        low=[end.low for end in ends],
        high=[end.high for end in ends],
        labels=[f"{rounds} rounds" for rounds in steps],
    )
