"""What do sums over many rounds reveal about single clients?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.analyses.analysis import BaseAnalysis, closing, vary
from fedleak.analyses.feature_space import layer_of
from fedleak.core import format_interval, format_value, rng_for
from fedleak.metrics.interval import by_user
from fedleak.pipeline import stages
from fedleak.pipeline.runs import runs
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.trace.reader import Trace

__all__ = ["Disaggregate", "Sums", "estimate", "likeness"]

Matrix = npt.NDArray[np.float64]

_STRENGTHS = 10.0 ** np.arange(-4, 4)  # of the penalty, in units of the squared singular values' mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a server under secure aggregation knows of a run, and what it tries to infer."""

    shares: Matrix  # (rounds, clients): what each client counted in the sum of each round, 0 where it was not there
    sums: Matrix  # (rounds, size)
    means: Matrix  # (clients, size): the mean of what each client sent, which nobody sees


@dataclass(frozen=True, kw_only=True)
class Disaggregate(BaseAnalysis):
    """Solve the sums of all rounds for the mean update of each client (Lam et al., 2021; So et al., 2023).

    Secure aggregation hides an update among those of its round, not a client among all rounds: with as many rounds as
    clients the sums are as many equations as there are unknowns. Updates change from round to round, which is all that
    blurs the solution.
    """

    name: ClassVar[str] = "disaggregate"
    summary: ClassVar[str] = "What do the sums of many rounds reveal about single clients?"

    layer: (
        Annotated[str, Meta(description="which layer of the updates; that of the plan's first attack if absent")] | None
    ) = None

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """The likeness of estimated and true mean updates over the number of rounds, with that to other clients."""
        varied = vary(plan, attacks=plan.attacks, games=plan.games)
        stages.train(varied, out, progress, jobs)
        every = runs(varied, out)
        layer = layer_of(plan, self.layer)
        progress.stage("Solving sums for clients", len(every))
        rows: list[list[str | float | None]] = []
        found: dict[tuple[str, int], list[tuple[Matrix, Matrix, Matrix]]] = {}
        for run in every:
            trace = Trace.open(run.folder / "trace")
            name = trace.header.layout[-1].name if layer == "last" else layer
            for knows in ("sums", "sums and its own clients"):
                given = read(trace, name, subtract=knows != "sums")
                if knows != "sums" and not any(index >= 0 for index in trace.header.shadow):
                    continue
                for rounds in sorted({max(2, trace.rounds * part // 4) for part in (1, 2, 4)}):
                    guess = estimate(given.shares[:rounds], given.sums[:rounds])
                    found.setdefault((knows, rounds), []).append(likeness(guess, given.means))
            progress.tick(1)
        series: dict[str, list[tuple[int, float, float, float, float]]] = {}
        for (knows, rounds), seeds in found.items():
            own, others, first = (np.concatenate(part) for part in zip(*seeds, strict=True))
            rng = rng_for(plan.seeds[0], "interval", self.name, knows, rounds)
            interval = by_user(own, np.ones(len(own)), plan.audit.level, rng)
            chance = 1 / np.mean([len(seed[0]) for seed in seeds])
            line = (rounds, float(own.mean()), interval.low, interval.high, float(others.mean()))
            series.setdefault(knows, []).append(line)
            rows.append([knows, rounds, *line[1:], float(first.mean()), float(chance), len(own)])
        last = {knows: lines[-1] for knows, lines in series.items()}
        told = "; ".join(
            f"from {knows}: {format_interval(line[1], line[2], line[3])}, to other clients {format_value(line[4])}"
            for knows, line in last.items()
        )
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                "A server that sees only the sum of each round, and who took part in it, solves these sums for the "
                "mean update of each client by ridge regression. Its estimates, minus the mean over clients, "
                f"are compared with the true means by cosine similarity, after all rounds: {told}. 1 would be the mean "
                "update itself; where the similarity to the client is no greater than to others, sums reveal "
                "nothing. A server that runs clients of its own can subtract their updates from the sums first. "
                f"Layer '{layer}'. {closing(plan, permuted=False)}"
            ),
            columns=[
                "the server knows",
                "rounds",
                "likeness to the client",
                "low",
                "high",
                "to other clients",
                "nearest is the client",
                "by chance",
                "clients",
            ],
            rows=rows,
            figures=[
                Figure(
                    kind="lines",
                    title="Likeness of estimated to true mean updates over the number of rounds",
                    x_label="rounds",
                    y_label="cosine",
                    series=[one for knows, lines in series.items() for one in drawn(knows, lines)],
                )
            ],
        )


def drawn(knows: str, lines: list[tuple[int, float, float, float, float]]) -> list[Series]:
    """A line with intervals, and the likeness to other clients beside it."""
    x = [float(line[0]) for line in lines]
    y, low, high = ([line[place] for line in lines] for place in (1, 2, 3))
    labels = [f"{line[0]} rounds" for line in lines]
    others = Series(name=f"{knows}: to other clients", x=x, y=[line[4] for line in lines], reference=True)
    return [Series(name=knows, x=x, y=y, low=low, high=high, labels=labels), others]


def read(trace: Trace, layer: str, *, subtract: bool) -> Sums:
    """The sums of a run's rounds; with `subtract`, less what the adversary's own clients put in.

    The true updates are read to know what was hidden, and to take the adversary's own off, and for nothing else.
    """
    updates = np.asarray(trace.updates(layer), dtype=np.float64)
    client, sizes, number_of = np.asarray(trace.client), np.asarray(trace.size, dtype=np.float64), trace.round
    weights = sizes if trace.header.settings.get("weighting", "examples") == "examples" else np.ones_like(sizes)
    share = weights / np.bincount(number_of, weights=weights)[number_of]
    count = len(trace.header.clients)
    shares = np.zeros((trace.rounds, count))
    shares[number_of - 1, client] = share
    sums = np.stack([trace.aggregate(n)[layer] for n in range(1, trace.rounds + 1)]).astype(np.float64)
    own = np.asarray(trace.header.shadow) >= 0
    if subtract:
        for row in np.flatnonzero(own[client]):
            sums[number_of[row] - 1] -= share[row] * updates[row]
    means = np.zeros((count, updates.shape[1]))
    np.add.at(means, client, updates)
    times = np.bincount(client, minlength=count)
    # Whoever never took part, and the adversary's own clients, are nothing to find out about.
    wanted = (times > 0) & ~own
    columns = wanted if subtract else times > 0
    means = means[wanted] / times[wanted, None]
    # The wanted ones first, so that the estimates of the others can be left out.
    order = np.concatenate([np.flatnonzero(wanted), np.flatnonzero(columns & ~wanted)])
    return Sums(shares=shares[:, order], sums=sums, means=means)


def estimate(shares: Matrix, sums: Matrix) -> Matrix:
    """Solve sums = shares @ updates for the updates, (clients, size), up to what all have in common.

    Ridge regression with an intercept; its strength is that of the least generalised cross-validation error (Golub,
    Heath and Wahba, 1979), which needs nothing but the sums.
    """
    a, y = shares - shares.mean(0), sums - sums.mean(0)
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    projected = u.T @ y
    outside = float(np.square(y).sum() - np.square(projected).sum())
    best, chosen = np.inf, np.zeros((shares.shape[1], sums.shape[1]))
    for strength in _STRENGTHS * max(float(np.mean(s**2)), 1e-300):
        kept = s**2 / (s**2 + strength)
        error = outside + float(np.square((1 - kept)[:, None] * projected).sum())
        freedom = len(y) - 1 - kept.sum()
        score = error / freedom**2 if freedom > 0 else np.inf
        if score < best:
            best, chosen = score, vt.T @ ((s / (s**2 + strength))[:, None] * projected)
    return chosen


def likeness(guess: Matrix, means: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """By client: the cosine of its estimate with its true mean and, on average, with others', and if its is nearest."""
    mine = [rows - rows.mean(0) for rows in (guess[: len(means)], means)]
    lengths = [np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300) for rows in mine]
    cosines = (mine[0] / lengths[0]) @ (mine[1] / lengths[1]).T
    own = np.diagonal(cosines).copy()
    others = (cosines.sum(1) - own) / max(1, len(own) - 1)
    # An estimate of nothing is near to nobody.
    nearest = (cosines.argmax(1) == np.arange(len(own))) & (lengths[0][:, 0] > 1e-200)
    return own, others, nearest.astype(np.float64)
