"""Are users' prior and private updates biased towards the same classes?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.analyses.analysis import SingleAttackAnalysis, closing, play, vary
from fedleak.core import IntArray, Layer, Task, format_value, rng_for
from fedleak.errors import AttackError, PlanError
from fedleak.games.identify import Identify
from fedleak.lazy import stats
from fedleak.metrics.interval import by_user
from fedleak.metrics.permutation import average_precision
from fedleak.pipeline.attack_runner import build_questions
from fedleak.pipeline.runs import Run, runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.trace.pseudonyms import Pseudonyms
from fedleak.views.adversaries import Adversary
from fedleak.views.view import View

__all__ = ["Bias"]

Table = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Leaning:
    """How far each user's updates move the weights of each class, on both sides."""

    users: tuple[str, ...]
    prior: Table  # (users, classes)
    private: Table
    ap: Table  # how identifiable each user is


@dataclass(frozen=True, kw_only=True)
class Bias(SingleAttackAnalysis):
    """Show the norm of the output weights' update class by class (Orekondy et al., 2020, Figure 11)."""

    name: ClassVar[str] = "bias"
    summary: ClassVar[str] = "Are users' prior and private updates biased towards the same classes?"

    users: Annotated[int, Meta(ge=1, description="how many of the most and of the least identifiable are shown")] = 4

    def check(self, plan: Plan) -> None:
        """Reject a data set without classes."""
        super().check(plan)
        task = plan.dataset.load(plan.seeds[0]).task
        if task in (Task.REGRESS, Task.NEXT_TOKEN):
            raise PlanError(
                f"analysis 'bias' compares classes, but the task of this data set is '{task.value}'; "
                "it needs a data set with classes"
            )

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Heatmaps of both ends, and the agreement of the two sides against how identifiable a user is."""
        population = plan.dataset.load(plan.seeds[0])
        attack = self.chosen(plan)
        # Everybody has to be among the options, whatever world the plan's own game plays in.
        varied = vary(plan, attacks=[attack], games=[Identify()])
        claims = play(varied, out, progress, jobs)[0]
        found = [
            leaning(run, varied.adversaries[0], population.outputs, one.claims, one.right)
            for run, one in zip(runs(varied, out), claims, strict=True)
        ]
        agreement, ap = pooled([agreements(one) for one in found], found)
        mean, chance = float(agreement.mean()), float(np.mean([strangers(one) for one in found]))
        rng = rng_for(plan.seeds[0], "interval", "bias")
        interval = by_user(agreement, np.ones(len(agreement)), plan.audit.level, rng)
        together = spearman(agreement, ap)
        ends = resampled(agreement, ap, plan.audit.level, rng) if together is not None else (None, None)
        told = (
            "cannot be compared with it, as all are equally identifiable"
            if together is None
            else f"goes with how identifiable a user is at a rank correlation of {together:.2f} "
            f"[{ends[0]:.2f}, {ends[1]:.2f}]"
        )
        classes = list(population.outputs_named) or [str(number) for number in range(population.outputs)]
        hidden = Pseudonyms.open(out).all_of(found[0].users)
        shown = replace(found[0], users=tuple(hidden[user] for user in found[0].users))
        order = np.array(sorted(range(len(shown.users)), key=lambda i: (-shown.ap[i], shown.users[i])), dtype=np.int64)
        count = min(self.users, max(1, len(order) // 2))
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "The norm of the update to the weights of each class shows which classes a client's data pulls on. "
                "The correlation over classes between prior and private updates of one user, after subtracting the "
                f"mean over users, is {format_value(mean)} [{format_value(interval.low)}, "
                f"{format_value(interval.high)}]; that of two different users is {format_value(chance)}. This "
                f"agreement {told}. "
                f"{closing(plan, attack.name, permuted=False)}"
            ),
            columns=["what", "value", "low", "high", "chance", "users"],
            rows=[
                ["agreement of prior and private", mean, interval.low, interval.high, chance, len(agreement)],
                ["rank correlation of agreement with AP", together, *ends, 0.0, len(agreement)],
            ],
            figures=[
                heatmap("The most identifiable users", shown, order[:count], classes),
                heatmap("The least identifiable users", shown, order[len(order) - count :], classes),
                Figure(
                    kind="scatter",
                    title="Agreement of a user's two sides, and how identifiable they are",
                    x_label="correlation of prior and private",
                    y_label="average precision",
                    series=[Series(name="users", x=agreement.tolist(), y=ap.tolist())],
                ),
            ],
        )


def leaning(run: Run, adversary: Adversary, outputs: int, claims: Any, right: IntArray) -> Leaning:
    """Read the output layer's weights from every update and average their norms by class, user and side."""
    given = build_questions(run, Identify())
    view = View(run.folder / "trace", adversary, given.shadow)
    layer = view.layout[-1]
    span, shape = weights(layer, outputs)
    norms: Table = np.concatenate(
        [
            np.linalg.norm(block[:, span].astype(np.float64).reshape(-1, *shape), axis=2)
            for block in view.updates.blocks(layer.name)
        ]
    )
    lengths = np.linalg.norm(norms, axis=1, keepdims=True)
    norms /= np.where(lengths > 0, lengths, 1)  # late updates are shorter, and nobody's leaning is weaker for it
    sides = []
    shadows = np.flatnonzero(given.shadow >= 0)
    users = range(len(given.questions.options))
    for places, who in ((shadows, given.shadow[shadows]), (given.questions.updates, given.answers.right)):
        sides.append([norms[places[who == user]] for user in users])
    both = [user for user in users if len(sides[0][user]) and len(sides[1][user])]
    if len(both) < 2:
        raise AttackError("fewer than two users have updates of both clients; train more rounds")
    means = [np.stack([side[user].mean(axis=0) for user in both]) for side in sides]
    ap = average_precision(claims, right).per_user[both]
    return Leaning(tuple(given.questions.options[user] for user in both), means[0], means[1], ap)


def weights(layer: Layer, outputs: int) -> tuple[slice, tuple[int, int]]:
    """Where the weights of every class lie in the output layer."""
    for name, shape in layer.tensors:
        if len(shape) >= 2 and shape[0] == outputs:
            return layer.span(name), (shape[0], math.prod(shape[1:]))
    raise AttackError(
        f"analysis 'bias' reads the weights of each of {outputs} classes from the output layer, and layer "
        f"'{layer.name}' has no tensor with a row for each"
    )


def correlations(one: Leaning) -> Table:
    """How far every user's prior leaning [row] agrees with every user's private one [column]."""
    sides = []
    for side in (one.prior, one.private):
        apart = side - side.mean(axis=0)  # some classes are larger for everybody
        apart = apart - apart.mean(axis=1, keepdims=True)
        lengths = np.linalg.norm(apart, axis=1, keepdims=True)
        sides.append(apart / np.where(lengths > 0, lengths, 1))
    table: Table = sides[0] @ sides[1].T
    return table


def agreements(one: Leaning) -> Table:
    """Each user's own."""
    return correlations(one).diagonal()


def strangers(one: Leaning) -> float:
    """The mean over pairs of different users."""
    table = correlations(one)
    return float(table[~np.eye(len(table), dtype=np.bool_)].mean())


def pooled(values: Sequence[Table], found: Sequence[Leaning]) -> tuple[Table, Table]:
    """Agreement and average precision of each user, over the seeds that they took part in."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for own, one in zip(values, found, strict=True):
        for user, value, ap in zip(one.users, own, one.ap, strict=True):
            seen.setdefault(user, []).append((float(value), float(ap)))
    means = np.asarray([np.mean(pairs, axis=0) for pairs in seen.values()])
    return means[:, 0], means[:, 1]


def spearman(x: Table, y: Table) -> float | None:
    """The correlation of ranks; None where one of the two does not vary."""
    a, b = stats.rankdata(x), stats.rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 0 else None


def resampled(x: Table, y: Table, level: float, rng: np.random.Generator) -> tuple[float, float]:
    """Percentiles of the rank correlation when users are resampled."""
    draws = rng.integers(len(x), size=(2000, len(x)))
    found = [value for rows in draws if (value := spearman(x[rows], y[rows])) is not None]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def heatmap(title: str, one: Leaning, users: IntArray, classes: list[str]) -> Figure:
    """Two rows a user, prior above private, so that agreement shows as equal stripes."""
    rows = [(f"{one.users[i]} (AP {format_value(float(one.ap[i]))}) {side}", i, side) for i in users for side in SIDES]
    return Figure(
        kind="heatmap",
        title=title,
        x_label="class",
        y_label="user and side",
        x_ticks=classes,
        y_ticks=[name for name, _, _ in rows],
        cells=[[float(value) for value in getattr(one, side)[i]] for _, i, side in rows],
    )


SIDES = ("prior", "private")
