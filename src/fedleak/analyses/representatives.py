"""What do the representatives of a client's updates look like, and how similar are they to its data?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedleak.analyses.analysis import BaseAnalysis, trained
from fedleak.analyses.curves import line
from fedleak.attacks.reconstruct.representatives import Inversion, RepresentativeSet, representatives
from fedleak.attacks.shadow import model_of
from fedleak.core import FloatArray, rng_for
from fedleak.errors import AttackError
from fedleak.federation.federation import make_clients
from fedleak.metrics.interval import by_user
from fedleak.pipeline.runs import Run
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.population.population import Examples
from fedleak.population.prepare import prepare, salted_seed
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure
from fedleak.trace.reader import Trace
from fedleak.views.adversaries import ANONYMOUS_SERVER
from fedleak.views.view import View

__all__ = ["RepresentativesLook"]

_COLUMNS = ["round", "measure", "value", "low", "high", "clients"]
_MEASURES = (
    "error of the update",
    "likeness to the client's mean",
    "likeness to another client's mean",
    "likeness to the nearest example",
)


@dataclass(frozen=True, kw_only=True)
class RepresentativesLook(BaseAnalysis, Inversion):
    """Find the representatives of every client in some rounds, and compare them with the client's own data.

    Likeness is the correlation of pixels, of each class's representative with the mean of the client's examples of that
    class (Song et al., 2020, show images only). Beside it stands the same with another client's mean of the class,
    drawn by lot among those who have it: what exceeds that is about the client and not about the class.
    """

    name: ClassVar[str] = "representatives"
    summary: ClassVar[str] = (
        "What do the representatives of a client's updates look like, and how similar are they to its data?"
    )

    rounds: Annotated[
        tuple[Annotated[int, Meta(ge=1)], ...], Meta(description="rounds to analyse; a few over the run if empty")
    ] = ()
    warm: Annotated[
        bool,
        Meta(description="start from the client's representatives of an earlier round, which needs links"),
    ] = False
    shown: Annotated[int, Meta(ge=0, le=10, description="clients whose images are drawn in the local report")] = 3

    def check(self, plan: Plan) -> None:
        """Refuse a round that the run does not have."""
        last = plan.federation.rounds
        if max(self.rounds, default=1) > last:
            raise AttackError(f"analysis '{self.name}': round {max(self.rounds)} is requested, but the run has {last}")

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """Numbers over the rounds with intervals by client, and images of the first seed's last round."""
        every = trained(plan, out, progress, jobs)
        last = plan.federation.rounds
        wanted = sorted({*self.rounds} or {1, max(1, last // 4), max(1, last // 2), last})
        progress.stage("Seeking representatives", len(every) * len(wanted))
        values: dict[tuple[int, str], list[npt.NDArray[np.float64]]] = {}
        images: list[Figure] = []
        for run in every:
            held = _held(plan, run)
            earlier: dict[str, FloatArray] = {}
            for at in wanted:
                found, owners = self._found(run, at, earlier)
                for measure, row in self._measured(found, [held[name] for name in owners], run, at).items():
                    values.setdefault((at, measure), []).append(row)
                if run is every[0] and at == wanted[0]:
                    images = self._images(found, [held[name] for name in owners])
                progress.tick(1)
        rows: list[list[str | float | None]] = []
        lines: dict[str, list[tuple[float, float, float, float]]] = {measure: [] for measure in _MEASURES}
        for (at, measure), parts in values.items():
            row = np.concatenate(parts)
            row = row[np.isfinite(row)]
            ends = by_user(row, np.ones(len(row)), plan.audit.level, rng_for(plan.seeds[0], "interval", measure))
            mean = float(row.mean())
            rows.append([float(at), measure, mean, ends.low, ends.high, float(len(row))])
            lines[measure].append((float(at), mean, ends.low, ends.high))
        figure = Figure(
            kind="lines",
            title="Representatives and the data behind them",
            x_label="round",
            y_label="correlation, or error of the update",
            series=[line(measure, points) for measure, points in lines.items()],
        )
        return Analysis(
            name=self.name,
            title="What do the images behind a client's updates look like?",
            text=(
                "For every update, images are sought that would have moved the shared model as the client's data "
                "did. "
                "The error says how far the update that they make is from the client's (0: the same; 1.41: nothing in "
                "common). Likeness is the correlation of their pixels with the mean of the client's own examples of "
                "the class, with another client's, and with the client's nearest example. Intervals are over clients."
            ),
            columns=_COLUMNS,
            rows=rows,
            figures=[figure, *images],
        )

    def _found(self, run: Run, at: int, earlier: dict[str, FloatArray]) -> tuple[RepresentativeSet, list[str]]:
        """The representatives of one round, and whose they are; `earlier` holds the last ones of each client."""
        view, trace = View(run.folder / "trace", ANONYMOUS_SERVER), Trace.open(run.folder / "trace")
        shape = tuple(view.settings["input_shape"])
        if len(shape) != 3:
            raise AttackError(f"analysis '{self.name}' needs images, but the examples have shape {shape}")
        model = model_of(view)
        rows = np.flatnonzero(view.updates.round == at)
        updates = {layer.name: np.asarray(view.updates.layer(layer.name)[rows]) for layer in model.layout}
        owners = [trace.header.clients[int(client)] for client in np.asarray(trace.client)[rows]]
        classes = int(view.settings["outputs"])
        nothing = np.zeros((classes, *shape), dtype=np.float32)
        found = representatives(
            model,
            view.snapshot(at - 1),
            updates,
            self,
            shape=shape,
            rng=rng_for(0, "representatives"),
            start=np.stack([earlier.get(owner, nothing) for owner in owners]) if self.warm and earlier else None,
            lr=float(view.settings["lr"]),
        )
        earlier.update(zip(owners, found.by_class(classes), strict=True))
        return found, owners

    def _measured(
        self, found: RepresentativeSet, held: Sequence[Examples], run: Run, at: int
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Every measure of each client; NaN where no class of its own was found."""
        rng = rng_for(run.seed, "representatives", at)
        table = np.full((3, len(held)), np.nan)
        for client, data in enumerate(held):
            scores: list[list[float]] = [[], [], []]
            for place, label in enumerate(found.labels[client]):
                mine = _of(data, int(label))
                if label < 0 or not len(mine):
                    continue
                image = found.images[client, place]
                scores[0].append(_alike(image, mine.mean(axis=0)))
                others = [o for o in rng.permutation(len(held)) if o != client and len(_of(held[o], int(label)))]
                if others:
                    scores[1].append(_alike(image, _of(held[others[0]], int(label)).mean(axis=0)))
                scores[2].append(max(_alike(image, example) for example in mine))
            table[:, client] = [np.mean(part) if part else np.nan for part in scores]
        return dict(zip(_MEASURES, [found.error, *table], strict=True))

    def _images(self, found: RepresentativeSet, held: Sequence[Examples]) -> list[Figure]:
        """Some clients' representatives above the means of their data, as they are; for the owner's report only."""
        figures = []
        for client in range(min(self.shown, len(held))):
            pairs = [
                (place, int(label))
                for place, label in enumerate(found.labels[client])
                if len(_of(held[client], int(label)))
            ]
            if not pairs:
                continue
            above = np.concatenate([found.images[client, place, 0] for place, _ in pairs], axis=1)
            below = np.concatenate([_of(held[client], label).mean(axis=0)[0] for _, label in pairs], axis=1)
            cells = np.concatenate([above, below], axis=0)
            step = max(1, cells.shape[1] // 96)  # more cells would make a page of megabytes
            figures.append(
                Figure(
                    kind="heatmap",
                    title=f"Client {client + 1}: representatives above, means of its data below",
                    x_label="",
                    y_label="",
                    x_ticks=[""] * len(cells[0, ::step]),
                    y_ticks=[""] * len(cells[::step]),
                    cells=[[float(round(v, 2)) for v in row] for row in cells[::step, ::step]],
                )
            )
        return figures


def _held(plan: Plan, run: Run) -> dict[str, Examples]:
    """What every client trained on; the auditor's own look, which an attack never has."""
    prepared = prepare(plan.dataset, plan.population, run.seed)
    return {client.id: client.data for client in make_clients(prepared.shares, salted_seed(prepared, run.seed))}


def _of(data: Examples, label: int) -> FloatArray:
    return np.asarray(data.x[np.asarray(data.y) == label], dtype=np.float32)


def _alike(one: FloatArray, other: FloatArray) -> float:
    """The correlation of two images; 0 where one of them shows nothing."""
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size > 0 else 0.0
