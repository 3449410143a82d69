"""Do the updates of one user cluster together? A map, and a number that does not depend on the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from threadpoolctl import threadpool_limits

from fedleak.analyses.analysis import BaseAnalysis, closing, measured, trained
from fedleak.analyses.curves import format_measured, numbers
from fedleak.analyses.feature_space import LayerName, Points, layer_of, of_data, of_updates
from fedleak.core import FloatArray, rng_for
from fedleak.errors import AttackError
from fedleak.games.identify import Identify
from fedleak.lazy import scipy
from fedleak.pipeline.runs import Run
from fedleak.pipeline.stages import Progress
from fedleak.plan.plan import Plan
from fedleak.results.audit import Analysis
from fedleak.results.detail import Figure, Series
from fedleak.score.score import AttackResult, metric_of
from fedleak.trace.pseudonyms import Pseudonyms

__all__ = ["Map"]


@dataclass(frozen=True, kw_only=True)
class Map(BaseAnalysis):
    """Draw the updates, and the data, of some users on a map by t-SNE (van der Maaten and Hinton, 2008).

    After Figure 11 of the first version of Orekondy et al.; users are drawn by the seed, not picked for a good
    image. A map can be read in many ways, so the share of private points whose nearest known neighbour belongs to
    the same user is given with it.
    """

    name: ClassVar[str] = "t-sne"
    summary: ClassVar[str] = "Do the updates of one user cluster together?"

    users: Annotated[int, Meta(ge=2, description="how many users are drawn")] = 10
    most: Annotated[int, Meta(ge=2, description="at most this many points of each user and side")] = 30
    perplexity: Annotated[float, Meta(gt=0, description="perplexity of t-SNE, at most")] = 30.0
    layer: LayerName = None

    def run(self, plan: Plan, out: Path, progress: Progress, jobs: int | None) -> Analysis:
        """A map of the first seed in each space, and how often the nearest neighbour is the same user, over seeds."""
        every = trained(plan, out, progress, jobs)
        progress.stage("Drawing maps", 2 * len(every))
        layer = layer_of(plan, self.layer)
        figures, rows, told = [], [], []
        for space in ("updates", "data"):
            some = []
            for run in every:
                rng = rng_for(run.seed, "t-sne", space)
                points = of_data(plan, run, self.most, rng) if space == "data" else of_updates(plan, run, layer)
                some.append(self._drawn(points, run, rng))
                progress.tick(1)
            found = measured(
                plan,
                [nearest(points, run) for points, run in zip(some, every, strict=True)],
                metric_of(Identify, "top1"),
            )
            rows.append([space, *numbers(found)])
            told.append(f"{space}: {format_measured(found)}")
            figures.append(self._map(some[0], every[0], space, Pseudonyms.open(out).all_of(some[0].users)))
        return Analysis(
            name=self.name,
            title=self.summary,
            text=(
                f"The points of {len(some[0].users)} users, drawn by the seed, are laid out so that near ones stay "
                "near; each user has prior and private points. The share of private points whose nearest prior point "
                f"is the same user's, before the layout: {'; '.join(told)}. Layer '{layer}'; distances between "
                f"groups on such a map mean nothing. {closing(plan)}"
            ),
            columns=["space", "nearest is the same user", "low", "high", "chance", "times chance", "users"],
            rows=rows,
            figures=figures,
        )

    def _drawn(self, points: Points, run: Run, rng: np.random.Generator) -> Points:
        if len(points.present) < 2:
            raise AttackError("fewer than two users have updates of both clients; train more rounds")
        # The same users in both spaces, as far as they have sent updates.
        order = rng_for(run.seed, "t-sne").permutation(len(points.users))
        users = np.sort(order[np.isin(order, points.present)][: self.users])
        return points.thinned(self.most, rng, users)

    def _map(self, points: Points, run: Run, space: str, hidden: Mapping[str, str]) -> Figure:
        rows: FloatArray = np.concatenate([points.known, points.private])
        seed = int(rng_for(run.seed, "t-sne", "map", space).integers(2**31))
        from sklearn.manifold import TSNE

        layout = TSNE(perplexity=min(self.perplexity, (len(rows) - 1) / 3), init="pca", random_state=seed)
        with threadpool_limits(1):  # sums in another order would give another map
            flat = layout.fit_transform(rows)
        places = (flat[: len(points.known)], flat[len(points.known) :])
        return Figure(
            kind="scatter",
            title=f"Map of {space}, seed {run.seed}",
            x_label="first coordinate",
            y_label="second coordinate",
            series=[
                dots(f"{hidden[points.users[user]]}, {side}", where[who == user])
                for user in sorted(range(len(points.users)), key=lambda user: hidden[points.users[user]])
                for side, where, who in (
                    ("prior", places[0], points.known_who),
                    ("private", places[1], points.private_who),
                )
            ],
        )


def nearest(points: Points, run: Run) -> AttackResult:
    """Answer every private point with the user of the nearest known one, as if it were an attack."""
    distances = scipy.spatial.distance.cdist(points.private, points.known)
    claims = np.stack(
        [-distances[:, points.known_who == user].min(axis=1) for user in range(len(points.users))], axis=1
    )
    who = points.private_who
    return AttackResult(run.seed, claims.astype(np.float32), who, points.users, Identify.name, who, points.users)


def dots(name: str, places: Sequence[Sequence[float]]) -> Series:
    """The points of one user's side."""
    return Series(name=name, x=[float(x) for x, _ in places], y=[float(y) for _, y in places])
