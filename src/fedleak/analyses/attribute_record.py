"""Attribute a given record to the client whose participation, or whose watermark, it correlates with.

Extracting a secret and attributing it are two different tasks. Here the adversary is given the true secrets, so only
attribution remains: how many rounds it takes, and whether it could be due to chance. The latter is also tested for the
records that the plan's own attacks name first, from nothing but what the adversary sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta

from fedleak.analyses.analysis import BaseAnalysis, closing, trained
from fedleak.analyses.curves import line
from fedleak.analyses.exposure_timeline import SIGNALS, Course, course
from fedleak.attacks.records.eavesdrop import spearman
from fedleak.attacks.records.scoring import Scores
from fedleak.attacks.records.significance import against_permuted, contrasts, holm, named_by_accident
from fedleak.core import format_value, rng_for
from fedleak.errors import PlanError
from fedleak.games.extract import Extract
from fedleak.metrics.interval import Interval, by_user
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.jobs import cores
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.views.adversaries import Adversary

__all__ = ["AttributeRecord"]

_BLOCK = 10  # rounds among which watermarks are permuted: the course of training stays as it was


@dataclass(frozen=True, kw_only=True)
class AttributeRecord(BaseAnalysis):
    """Correlation of each secret's exposure with every client, over the rounds (Yuan et al., 2021, Figures 2 and 3)."""

    name: ClassVar[str] = "attribute-record"
    summary: ClassVar[str] = "Given a record, whose is it, and after how many rounds can the adversary tell?"

    points: Annotated[int, Meta(ge=2, le=200, description="points of the curves over the rounds")] = 20
    permutations: Annotated[int, Meta(ge=99, description="how often rounds are permuted for a p-value")] = 9999
    named: Annotated[
        bool,
        Meta(description="also test what the plan's eavesdrop and watermark name first, which repeats their search"),
    ] = True

    def check(self, plan: Plan) -> None:
        """Refuse a plan without secrets, or without anybody who has a signal of the clients."""
        able(plan)

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Curves over the rounds, and at the end who was attributed and whether it could be an accident."""
        players = able(plan)
        every = trained(plan, out, progress, jobs)
        progress.stage("Following secrets", len(every) * len(players))
        courses: dict[str, list[Course]] = {signal: [] for signal in players}
        for run in every:
            given = build_questions(run, next(game for game in plan.games if isinstance(game, Extract)))
            for signal, adversary in players.items():
                attack = next((one for one in plan.attacks if isinstance(one, SIGNALS[signal]) and self.named), None)
                courses[signal].append(course(run, given, signal, adversary, attack, jobs or cores()))
                progress.tick(1)
        first = next(iter(courses.values()))
        last = first[0].rounds
        steps = np.unique(np.linspace(min(3, last), last, self.points).round().astype(int)).tolist()
        hidden = Pseudonyms.open(out).all_of(user for some in courses.values() for one in some for user in one.users)
        found = [self._about(plan, signal, some, hidden) for signal, some in courses.items()]
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The adversary is given every secret. How well the shared model knows it is followed from round to "
                "round and correlated with a signal of each client. "
                + " ".join(text for text, _ in found)
                + " A p-value "
                f"compares with {self.permutations} permutations of the rounds, for the best of all clients, corrected "
                f"for the number of secrets (Holm, 1979). {closing(plan, permuted=False)}"
            ),
            columns=["user", "record", "signal", "own client", "best other", "right", "p", "p corrected"],
            rows=[row for _, rows in found for row in _by_pseudonym(rows)],
            figures=[
                Figure(
                    kind="lines",
                    title="Correlation of a secret's exposure with its own client and with the others",
                    x_label="rounds seen",
                    y_label="mean rank correlation",
                    series=[
                        line
                        for signal, some in courses.items()
                        for line in (
                            _line(plan, f"{signal}, own client", some, steps, Course.own),
                            _line(plan, f"{signal}, other clients", some, steps, Course.others),
                        )
                    ],
                ),
                Figure(
                    kind="lines",
                    title="Share of the secrets that correlate best with their own client",
                    x_label="rounds seen",
                    y_label="attributed",
                    series=[
                        *(_line(plan, signal, some, steps, Course.right) for signal, some in courses.items()),
                        Series(name="chance", x=[float(steps[-1])], y=[chance(first)], reference=True),
                    ],
                ),
            ],
        )

    def _about(
        self, plan: Plan, signal: str, courses: Sequence[Course], hidden: Mapping[str, str]
    ) -> tuple[str, list[list[str | float | None]]]:
        """One signal at the end of the run: a sentence, and a row for each secret."""
        block = _BLOCK if signal == "watermark" else None
        p = [
            against_permuted(
                contrasts(one.signals),
                one.changes,
                rng_for(one.seed, "attribute-record", signal),
                permutations=self.permutations,
                block=block,
            )
            for one in courses
        ]
        corrected = holm(np.concatenate(p))
        last = courses[0].rounds
        own = np.concatenate([one.own(last) for one in courses])
        best = np.concatenate([one.others(last, highest=True) for one in courses])
        right = np.concatenate([one.right(last) for one in courses])
        names = [f"{hidden[user]} (seed {one.seed})" for one in courses for user in one.users]
        level = 1 - plan.audit.level
        ends = interval(plan, courses, right)
        shown = int(((corrected <= level) & (right == 1)).sum())
        text = (
            f"By {'who took part' if signal == 'presence' else 'the watermarks'}, {format_value(float(right.mean()))} "
            f"[{format_value(ends.low)}, {format_value(ends.high)}] of {len(right)} secrets go best with their "
            f"own client, chance {format_value(chance(courses))}; for {shown} of them this is shown to be no accident "
            f"(p at most {level:.2g})."
        )
        rows: list[list[str | float | None]] = [
            [name, "the secret", signal, *map(float, values)]
            for name, *values in zip(names, own, best, right, np.concatenate(p), corrected, strict=True)
        ]
        if all(one.first for one in courses):
            more, named = self._about_named(plan, signal, courses, names, block)
            return f"{text} {more}", [*rows, *named]
        return text, rows

    def _about_named(
        self, plan: Plan, signal: str, courses: Sequence[Course], names: Sequence[str], block: int | None
    ) -> tuple[str, list[list[str | float | None]]]:
        """The same of the records that the attack names first, whoever they belong to."""
        p, own, best, right = [], [], [], []
        for one in courses:
            assert one.first is not None
            clients = range(len(one.users))
            table = spearman(one.signals, one.first.changes)[:, one.first.first]
            own += [table[client, client] for client in clients]
            best += [np.delete(table[:, client], client).max() for client in clients]
            right += list(one.first.right)
            p += list(
                named_by_accident(
                    contrasts(one.signals)[:, : len(one.users)],
                    one.first.changes,
                    one.first.exposure,
                    one.first.first,
                    rng_for(one.seed, "attribute-record", signal, "named"),
                    permutations=self.permutations,
                    block=block,
                )
            )
        corrected = holm(np.array(p))
        attack, shown = SIGNALS[signal].name, corrected <= 1 - plan.audit.level
        text = (
            f"Of the {len(p)} records that {attack}, which is told none, names first, {int(shown.sum())} are shown to "
            f"be no accident, and {int((shown & (np.array(right) == 1)).sum())} of these are right."
        )
        values = zip(names, own, best, right, p, corrected, strict=True)
        return text, [[name, f"first of {attack}", signal, *map(float, rest)] for name, *rest in values]


def _by_pseudonym(rows: Sequence[list[str | float | None]]) -> list[list[str | float | None]]:
    """Secrets first, each part in the order of the pseudonyms, which tells nothing."""
    return sorted(rows, key=lambda row: (row[1] != "the secret", str(row[0])))


def able(plan: Plan) -> dict[str, Adversary]:
    """Which signals the plan's adversaries have, and who has them."""
    if not any(isinstance(game, Extract) for game in plan.games):
        raise PlanError(
            "analysis 'attribute-record' is about secrets in users' texts, but no attack of the plan extracts any; "
            "add one for the game 'extract', for instance [[attack]] eavesdrop"
        )
    found: dict[str, Adversary] = {}
    for signal, attack in SIGNALS.items():
        for adversary in plan.adversaries:
            if not adversary.missing(attack) and (plan.inject is not None or not attack.capabilities):
                found.setdefault(signal, adversary)
    if not found:
        raise PlanError(
            "analysis 'attribute-record' needs an adversary that sees which clients took part (eavesdropper), or one "
            "that injected a record (insider, with a table [inject])"
        )
    return found


def chance(courses: Sequence[Course]) -> float:
    """The share of secrets that a blind guess attributes."""
    return float(np.mean([1 / one.signals.shape[1] for one in courses]))


def interval(plan: Plan, courses: Sequence[Course], values: Scores) -> Interval:
    """Of the mean of one value for each secret, resampling users."""
    users = [user for one in courses for user in one.users]
    who = np.unique(users, return_inverse=True)[1]
    weights = np.bincount(who).astype(np.float64)
    means = np.bincount(who, weights=values) / weights
    return by_user(means, weights, plan.audit.level, rng_for(courses[0].seed, "attribute-record", "interval"))


def _line(
    plan: Plan, name: str, courses: Sequence[Course], steps: Sequence[int], value: Callable[[Course, int], Scores]
) -> Series:
    """A mean over all secrets after each of some rounds."""
    each = [np.concatenate([value(one, rounds) for one in courses]) for rounds in steps]
    # Values that are all the same have no spread to resample; for shares, a handful of users still leaves doubt.
    ends = [
        interval(plan, courses, values)
        if value is Course.right or np.ptp(values)
        else Interval(float(values[0]), float(values[0]))
        for values in each
    ]
    points = [(float(n), float(v.mean()), end.low, end.high) for n, v, end in zip(steps, each, ends, strict=True)]
    return line(name, points, labels=[f"{rounds} rounds" for rounds in steps])
